"""The cases say what a good audit says; our part of it must be named, and controls must stay clean."""

from __future__ import annotations

import pytest

from graphaudit.findings import Severity
from tests.rules.checks.subjects import CASES, case, findings, ours

CONTROLS = ("010", "068", "135", "171", "172", "174", "175", "176", "186", "203")
NOTES = {"case_175_attention_padding_ok": ["fast-path-specialisation"]}  # eager calls the fused attention there
FILES = sorted(p.stem for p in CASES.glob("case_*.py"))


@pytest.mark.parametrize("name", FILES)
def test_names_the_defect(name: str) -> None:
    module, subject = case(name)
    found = findings(subject)
    wanted = set(module.EXPECT["findings"]) & {c.name for c in ours()}
    assert wanted <= {f.name for f in found}
    assert subject.captured or any(f.severity is Severity.ERROR for f in found)
    if name.split("_")[1] in CONTROLS:
        assert [f.name for f in found] == NOTES.get(name, [])
