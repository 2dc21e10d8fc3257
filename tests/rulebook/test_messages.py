"""Error messages of the targets' tools: every one has sources, and the findings that it names exist."""

from __future__ import annotations

import json

import pytest

from graphaudit.errors import RuleError
from graphaudit.registry import checks
from graphaudit.report.explanation import explain
from graphaudit.rulebook.messages import find_message, messages, read_messages

SOURCE = {"cites": "somewhere", "read": "2026-01-01", "licence": "MIT"}
ENTRY = {"codes": ["E1"], "tool": "T", "summary": "It fails.", "causes": [], "remedy": "Try.", "sources": ["s"]}


def test_every_message_has_sources_and_real_findings() -> None:
    assert len(messages()) > 15
    for found in messages():
        assert found.sources and all(found.sources)
        assert found.message.summary.endswith(".") and found.message.remedy.endswith(".")
        assert found.message.causes
        assert set(found.message.findings) <= checks().keys()


@pytest.mark.parametrize("code", ["E19010", "e16002", "EZ3002", "EZ3003", "E16005", "E10049", "507011", "ascend910b"])
def test_known_codes_are_found_however_they_are_written(code: str) -> None:
    assert find_message(code) is not None


def test_explain_knows_them_beside_the_findings() -> None:
    explained = explain("E19010")
    assert explained.code == "E19010" and explained.summary == "ATC has no parser for an operator of the model."
    assert "GA203 opset-too-new" in explained.text and "msit" in explained.text
    with pytest.raises(RuleError) as caught:
        explain("E1901")
    assert "E19010" in caught.value.remedy


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([{**ENTRY, "sources": []}], "E1 has no source"),
        ([{**ENTRY, "sources": ["t"]}], "E1 has no source, or one that"),
        ([ENTRY, {**ENTRY, "codes": ["e1"]}], "e1 stands there twice"),
        ([{**ENTRY, "extra": 1}], "unknown field `extra`"),
    ],
)
def test_a_bad_file_is_refused_with_a_reason(entries, reason: str) -> None:
    text = json.dumps({"family": "f", "sources": {"s": SOURCE}, "errors": entries}).encode()
    with pytest.raises(RuleError, match=rf"toy\.json.*{reason}"):
        read_messages(text, "toy.json")
