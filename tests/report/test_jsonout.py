"""The report for machines."""

from __future__ import annotations

import json
import math

from graphaudit.equivalence.verdict import Claim, Verdict
from graphaudit.findings import Evidence, Finding, Severity
from graphaudit.report.jsonout import encode
from graphaudit.results import CaptureSummary, PassRow, PolicySummary, Report


def report() -> Report:
    found = Finding(
        code="GA301",
        name="naive-softmax",
        severity=Severity.WARNING,
        message="exp() overflows",
        file="/x/\udcff.py",
        line=57,
        evidence=Evidence(rule="r", source="s"),
        fixed_by="rewrite_softmax",
    )
    verdict = Verdict(step="s", claim=Claim.DIVERGED, inputs=3, worst_abs=math.inf, tolerance=math.nan)
    return Report(
        graphaudit_version="0.1.0",
        command="rewrite",
        policy=PolicySummary(name="walker.py:build"),
        capture=CaptureSummary(method="torch.export"),
        targets=["onnx"],
        findings=[found],
        fit={"onnx": False},
        passes=[PassRow(name="p", level="fx", changed=1, verdict=verdict, rolled_back=True)],
    )


def test_it_is_strict_json_with_the_promised_keys() -> None:
    def no_constant(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    document = json.loads(encode(report()), parse_constant=no_constant)
    (found,) = document["findings"]
    promised = {
        "code",
        "name",
        "severity",
        "message",
        "target",
        "file",
        "line",
        "node",
        "evidence",
        "remedy",
        "fixed_by",
    }
    assert promised <= set(found)
    assert found["severity"] == "warning"
    assert found["target"] is None
    assert found["evidence"] == {"rule": "r", "source": "s", "date": None}
    assert document["passes"][0]["verdict"]["worst_abs"] is None
    assert document["passes"][0]["verdict"]["tolerance"] is None
    assert document["passes"][0]["verdict"]["claim"] == "diverged"


def test_names_that_are_not_unicode_do_not_break_it() -> None:
    assert json.loads(encode(report()))["findings"][0]["file"] == "/x/\\udcff.py"


def test_the_same_report_gives_the_same_bytes() -> None:
    assert encode(report()) == encode(report())
    assert encode(report()).endswith(b"}\n")
