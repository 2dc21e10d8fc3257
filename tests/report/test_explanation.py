"""What `explain` says."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from graphaudit.errors import RuleError
from graphaudit.registry import checks
from graphaudit.report.explanation import explain, listing, print_explanation, print_listing


def console(width: int = 100) -> Console:
    return Console(file=io.StringIO(), width=width)


def written(target: Console) -> str:
    assert isinstance(target.file, io.StringIO)
    return target.file.getvalue()


@pytest.mark.parametrize("name", list(checks()))
def test_every_check_explains_itself(name: str) -> None:
    target = console(80)
    print_explanation(explain(name), target)
    text = written(target)
    check = checks()[name]
    assert text.startswith(f"{check.code} {name}   {check.severity.value} · ")
    for heading in ("What it does", "Why it matters"):
        assert f"\n{heading}\n" in text
    assert "##" not in text.replace("    #", "")
    assert "```" not in text


def test_codes_and_names_in_any_case_are_found() -> None:
    code = checks()["data-dependent-branch"].code
    assert explain(code) == explain(code.lower()) == explain("Data-Dependent-Branch")


def test_an_unknown_name_gets_near_ones() -> None:
    with pytest.raises(RuleError) as caught:
        explain("data-dependant-branch")
    assert "'data-dependent-branch'" in caught.value.remedy
    with pytest.raises(RuleError, match="no finding 'qqq'") as caught:
        explain("qqq")
    assert "graphaudit explain" in caught.value.remedy


def test_the_listing_has_every_finding_by_family() -> None:
    target = console()
    print_listing(listing(), target)
    lines = written(target).splitlines()
    codes = [line.split()[0] for line in lines if line.startswith("  GA")]
    assert codes == sorted(check.code for check in checks().values())
    assert lines.index("GA0 capture and inputs") < lines.index("GA1 control flow")
