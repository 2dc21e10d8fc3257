"""Target files come out of the facts in the repository, byte for byte, and a bad table is refused with its line."""

from __future__ import annotations

import csv
import random
from importlib import resources

import pytest

from graphaudit.errors import RuleError, TargetError
from graphaudit.rulebook import Support, load_rulebook
from graphaudit.rulebook.build import Shared, build, buildable, read_table, survey
from tests.rulebook.models import make_node

TARGETS = resources.files("graphaudit.rules.targets")
FACTS = resources.files("graphaudit.rules.facts")


def test_every_target_with_a_table_of_its_own_is_built() -> None:
    files = {f.name.removesuffix(".json") for f in TARGETS.iterdir() if f.name.endswith(".json")}
    assert files == set(buildable())


@pytest.mark.parametrize("name", buildable())
def test_the_same_facts_give_the_same_bytes(name: str) -> None:
    assert build(name) == (TARGETS / f"{name}.json").read_bytes(), f"run `graphaudit rulebook build {name}`"


def rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((FACTS / f"{name}.csv").read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize("name", ["ascend-910b", "tensorrt"])
def test_fifty_facts_from_the_tables_are_what_the_rulebook_answers(name: str) -> None:
    table = {"tensorrt": "tensorrt"}.get(name, "ascend")
    plain = [row for row in rows(table) if "::" not in row["op"] and row["opsets"] != "any"]
    for row in random.Random(4).sample(plain, 50):
        answer = load_rulebook(name).answer(make_node(row["op"], (None,), ()))
        taken = any(int(low) <= 18 <= int(high or low) for low, _, high in _spans(row["opsets"]))
        said = "; ".join(answer.reasons)
        if not taken:
            assert answer.support is Support.UNSUPPORTED, (row, answer)
        else:
            assert "opset" not in said and "no rule" not in said, (row, answer)
        assert answer.evidence is not None and answer.evidence.source and answer.evidence.date


def _spans(cell: str) -> list[tuple[str, str, str]]:
    return [span.partition("-") for span in cell.split()]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("op,opsets,sources\nRelu,8-x,s\n", "line 2: '8-x' are no opset ranges"),
        ("op,opsets,sources\nRelu,8-18,s\nRelu,8-18,s\n", "line 3: Relu stands there already"),
        ("op,opsets,sources\nRelu,8-18,\n", "line 2: Relu has no source"),
        ("op,opsets,sources\nRelu,8-18\n", "line 2: the row does not have one cell"),
        ("op,opsets,sources\nRelu,8-18,s,t\n", "line 2: the row does not have one cell"),
    ],
)
def test_a_bad_table_is_refused_with_file_line_and_reason(text: str, reason: str) -> None:
    with pytest.raises(RuleError, match=rf"rules/facts/toy\.csv, {reason}"):
        read_table(text, "toy.csv")


def test_a_table_becomes_entries() -> None:
    text = "op,opsets,torch,AI Core,data_input,notes,sources\nWhere,8 11-18,,float16 int8,1,slow,a b\n"
    text += "Loop,,2.1 2.3-2.4,,,,a\n"
    assert read_table(text, "toy.csv", Shared("no {op}", {"slow": {"rule": "slow"}})) == {
        "Where": {
            "sources": ["a", "b"],
            "opsets": [[8, 8], [11, 18]],
            "engines": {"AI Core": ["float16", "int8"]},
            "data_input": 1,
            "limits": [{"rule": "slow"}],
        },
        "Loop": {"sources": ["a"], "opsets": [], "why": "no Loop", "torch": [["2.1", "2.1"], ["2.3", "2.4"]]},
    }


def test_there_is_nothing_to_build_for_a_target_without_facts() -> None:
    with pytest.raises(TargetError, match="no facts to build 'toaster'"):
        build("toaster")


def test_a_refreshed_table_goes_into_the_file() -> None:
    table = survey("torchair").replace("aten.cumsum.default,any", "aten.cumsum.default,")
    assert build("torchair", {"torchair": table}) != build("torchair")
    assert build("torchair", {"torchair": survey("torchair")}) == build("torchair")
