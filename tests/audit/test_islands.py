"""Islands, departures and crossings of small graphs whose numbers can be counted by hand."""

from __future__ import annotations

import pytest
from onnx import parser

from graphaudit.audit.islands import survey
from graphaudit.audit.subject import Subject
from graphaudit.findings import Finding, Severity
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.onnx_view import view_model
from graphaudit.registry import checks
from graphaudit.results import Islands
from graphaudit.rulebook import load_rulebook

HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'
# On Ascend 310P ScatterElements and the cumulative sum of int64 run on the AI CPU; the other operators on the AI Core.
ALL_ON = "g (float[4] x) => (float[4] y) { a = Relu (x) y = Tanh (a) }"
MIDDLE = """g (float[4] x, int64[4] i) => (float[4] y) {
  a = Relu (x) b = ScatterElements (a, i, a) y = Tanh (b) }"""
BESIDE = """g (float[4] x, int64[4] i) => (float[4] y) {
  a = Relu (x) b = ScatterElements (a, i, a) y = Add (a, b) }"""
TWICE = """g (float[4] x, int64[4] i) => (float[4] y) {
  a = Relu (x) b = ScatterElements (a, i, a) c = Tanh (b) d = ScatterElements (c, i, c) y = Exp (d) }"""
FIRST = """g (float[4] x, int64[4] i) => (float[4] y) { b = ScatterElements (x, i, x) y = Tanh (b) }"""
APART = """g (float[4] x, int64[4] i) => (float[4] y, float[4] z) {
  a = Relu (x) b = ScatterElements (a, i, a) c = ScatterElements (a, i, x) y = Tanh (b) z = Exp (c) }"""
REFUSED = "g (float[4] x) => (float[4] y) { a = Relu (x) b = NoSuchOp (a) y = Tanh (b) }"
CONSTANT = "g (float[4] x) => (float[4] y) { c = Constant <value_float = 1.0> () y = Add (x, c) }"


def islands(body: str, target: str = "ascend-310p") -> Islands:
    return survey(view_model(OnnxModel(parser.parse_model(HEAD + body))), load_rulebook(target))


@pytest.mark.parametrize(
    ("body", "nodes", "on", "parts", "departures", "crossings"),
    [
        (ALL_ON, 2, 2, 1, 0, 0),
        (MIDDLE, 3, 2, 2, 1, 2),
        (BESIDE, 3, 2, 2, 1, 2),  # a and y are connected, but the way from one to the other leaves
        (TWICE, 5, 3, 3, 2, 4),
        (FIRST, 2, 1, 1, 0, 1),
        (APART, 5, 3, 3, 1, 4),  # both leave at the same time
        (REFUSED, 3, 2, 2, 1, 2),
        (CONSTANT, 1, 1, 1, 0, 0),
        ("g (float[4] x) => (float[4] x) { }", 0, 0, 0, 0, 0),
    ],
)
def test_numbers_counted_by_hand(body, nodes, on, parts, departures, crossings) -> None:
    found = islands(body)
    assert (found.nodes, found.on, found.islands) == (nodes, on, parts)
    assert (found.departures, found.crossings) == (departures, crossings)
    assert found.share == (on / nodes if nodes else 1.0)


def test_the_node_with_the_most_crossings_is_named() -> None:
    found = islands(TWICE)
    assert found.worst is not None and found.worst.startswith("ScatterElements") and found.worst_crossings == 2
    assert islands(ALL_ON).worst is None


def left(body: str, target: str) -> list[Finding]:
    model = OnnxModel(parser.parse_model(HEAD + body))
    return list(checks()["accelerator-left"]().examine(Subject(model=model, rulebook=load_rulebook(target))))


def test_a_graph_that_leaves_is_a_note() -> None:
    (finding,) = left(MIDDLE, "ascend-310p")
    assert finding.severity is Severity.NOTE
    assert finding.message == (
        "execution leaves the accelerator once: 2 parts with 67% of the nodes stay on it, "
        "and ScatterElements alone costs 2 of 2 crossings"
    )
    assert finding.evidence is not None and "ScatterElements.md" in finding.evidence.source


def test_what_stays_and_what_has_no_accelerator_is_silent() -> None:
    assert left(ALL_ON, "ascend-310p") == []
    for target in ("onnx", "onnxruntime", "ascend-910b", "tensorrt"):
        assert left(MIDDLE, target) == []


def test_what_the_cann_provider_leaves_is_a_departure() -> None:
    (finding,) = left("g (float[4] x) => (float[4] y) { a = Relu (x) b = Mish (a) y = Tanh (b) }", "onnxruntime-cann")
    assert "leaves the accelerator once" in finding.message and "Mish alone" in finding.message
