"""Finding targets, inheriting facts, refusing rule files."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from graphaudit.errors import RuleError, TargetError
from graphaudit.rulebook import Support, load_rulebook, targets
from graphaudit.rulebook.rulebook import Rulebook, read_target_file
from tests.rulebook.models import make_node

SOURCE = {"cites": "somewhere", "read": "2026-01-01", "licence": "MIT"}


def properties(**more):
    fact = {"rule": "so it is", "sources": ["s"]}
    return {name: {"value": value, **fact} for name, value in {"opset": 17, "max_opset": 17, **more}.items()}


def target_file(**fields):
    base = {"name": "toy", "summary": "a toy", "source": "table", "facts": "f", "sources": {"s": SOURCE}}
    return {**base, "properties": properties(), **fields}


def read(contents, parent=None):
    text = contents if isinstance(contents, bytes) else json.dumps(contents).encode()
    return read_target_file(text, "toy.json", lambda name: read(parent))


def op(**fields):
    return {"Relu": {"sources": ["s"], "opsets": [[8, 17]], **fields}}


def test_the_targets_of_this_installation():
    assert [t.name for t in targets()] == [
        *("ascend-310b", "ascend-310p", "ascend-910a", "ascend-910b", "ascend-950", "ascend-a3"),
        *("libtorch", "onnx", "onnxruntime", "onnxruntime-cann", "tensorrt", "torch-npu", "torchair"),
    ]
    for target in targets():
        assert target.summary
        assert target.facts
        assert target.opset == (18 if target.graph == "onnx" else 0)


def test_an_unknown_target_is_told_the_nearest_names():
    with pytest.raises(TargetError, match="there is no target 'ascend310p'") as caught:
        load_rulebook("ascend310p")
    assert "Did you mean ascend-310p" in caught.value.remedy
    with pytest.raises(TargetError) as caught:
        load_rulebook("ascend")  # abstract
    assert "ascend-910b" in caught.value.remedy
    with pytest.raises(TargetError) as caught:
        load_rulebook("../../etc/passwd")
    assert "onnxruntime" in caught.value.remedy


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (b"{", "truncated|malformed"),
        (b"[]", "Expected `object`"),
        (target_file(extra=1), "unknown field `extra`"),
        (target_file(ops=op(extra=1)), "unknown field `extra`"),
        (target_file(ops={"Relu": {"opsets": [[8, 17]]}}), "missing required field `sources`"),
        (target_file(ops=op(sources=[])), "ops.Relu has no source"),
        (target_file(ops=op(sources=["t"])), "ops.Relu cites 't', which `sources` does not list"),
        (target_file(ops=op(sources=["s:path"])), "cites 's:path'"),
        (target_file(ops=op(opsets=[[8, 12], [12, 17]])), "opset ranges 8 to 12 and 12 to 17 overlap"),
        (target_file(ops=op(opsets=[[17, 8]])), "opset range 17 to 8 is not a range"),
        (target_file(ops=op(opsets=[[0, 8]])), "opset range 0 to 8 is not a range"),
        (target_file(ops=op(engines={"CPU": ["float33"]})), "unknown dtype 'float33'"),
        (target_file(ops=op(limits=[{"rule": "r", "effect": "noted", "sources": []}])), r"limits\[0\] has no source"),
        (target_file(ops=op(limits=[{"rule": "r", "effect": "odd", "sources": ["s"]}])), "Invalid enum value 'odd'"),
        (target_file(ops=op(limits=[{"rule": "r", "effect": "moved", "sources": ["s"]}])), "moved to no `engine`"),
        (
            target_file(ops=op(limits=[{"rule": "r", "effect": "noted", "sources": ["s"], "when": {"above": 3}}])),
            "names no `attribute`",
        ),
        (
            target_file(ops=op(limits=[{"rule": "r", "effect": "noted", "sources": ["s"], "when": {"dtypes": ["f"]}}])),
            "unknown dtype 'f'",
        ),
        (target_file(dtypes={"real": {"rule": "r", "effect": "noted", "sources": ["s"]}}), "unknown dtype 'real'"),
        (target_file(properties={}), "property `opset` is missing"),
        (target_file(properties=properties(colour="red")), "`colour` is no field of Target"),
        (target_file(source="oracle"), "Invalid enum value 'oracle'"),
        ({k: v for k, v in target_file().items() if k != "source"}, "no `source` says"),
        (target_file(ops={"Relu": {"sources": ["s"]}}), "ops.Relu has no `opsets`"),
    ],
)
def test_invalid_files_are_refused_with_file_and_reason(contents, reason):
    with pytest.raises(RuleError, match=rf"(?s)toy\.json(, line \d+)?: .*({reason})") as caught:
        read(contents)
    assert caught.value.remedy


BROKEN = """{
  "name": "toy", "summary": "t", "source": "table",
  "sources": {"s": {"cites": "c", "read": "2026-01-01", "licence": "MIT"}},
  "properties": {"opset": {"value": 17, "rule": "r", "sources": ["s"]},
                 "max_opset": {"value": 18, "rule": "r", "sources": ["s"]}},
  "ops": {
    "Exp": {"sources": ["s"], "opsets": [[8, 18]]},
    "Relu": {
      "sources": ["s"],
      "opsets": [[8, 12], [11, 18]],
      "limits": [
        {"rule": "r", "effect": "noted", "sources": []}
      ]
    }
  }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('"sources": []', '"sources": ["s"]', 8),
        ("[11, 18]", "[13, 18]", 12),
        ('"sources": []', '"sources": ["s"], "when": 3', 12),
        ('"Relu": {', '"Relu": { "colour": 1,', 8),
        ('"opsets": [[8, 18]]', '"opsets": [[8, "x"]]', 7),
        ('"name": "toy",', '"name": "toy"', 2),
        ('"sources": ["s"],\n', "\n", 8),
    ],
)
def test_a_fault_is_given_with_its_line(old, new, line):
    with pytest.raises(RuleError, match=rf"^toy\.json, line {line}: "):
        read_target_file(BROKEN.replace(old, new).encode(), "toy.json")


def test_a_property_of_the_wrong_kind_is_refused():
    with pytest.raises(RuleError, match=r"toy\.json: properties: .*loops"):
        Rulebook(read(target_file(properties=properties(loops="never"))))


def test_a_child_adds_limits_and_replaces_the_rest():
    limit = {"rule": "slow", "effect": "noted", "sources": ["s"]}
    parent = target_file(name="base", abstract=True, ops=op(limits=[limit]))
    child = {"name": "toy", "summary": "t", "extends": "base"}
    child["properties"] = {"loops": {"value": False, "rule": "no", "sources": ["s"]}}
    child["ops"] = {"Relu": {"sources": ["s"], "limits": [{**limit, "rule": "hot"}]}, "Exp": op()["Relu"]}
    rulebook = Rulebook(read(child, parent))
    assert rulebook.answer(make_node("Relu", opset=9)).reasons == ("slow", "hot")
    assert rulebook.answer(make_node("Relu", opset=18)).support is Support.UNSUPPORTED
    assert rulebook.answer(make_node("Exp", opset=9)).support is Support.SUPPORTED
    assert (rulebook.target.opset, rulebook.target.loops) == (17, False)


def test_tables_load_without_torch_and_without_a_runtime():
    script = (
        "import sys; from graphaudit.rulebook import load_rulebook; load_rulebook('ascend-310p');"
        "assert not {'torch', 'onnxruntime', 'onnx'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_listing_the_targets_imports_no_torch():
    script = "import sys; from graphaudit.rulebook import targets; targets(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
