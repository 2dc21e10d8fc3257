"""What a compiler of static graphs wants beyond operators: GA208, GA209 and GA242."""

from __future__ import annotations

import pytest
from onnx import parser

from graphaudit.audit.subject import Subject
from graphaudit.findings import Finding, Severity
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.registry import checks
from graphaudit.rulebook import load_rulebook


def found(name: str, body: str, target: str = "ascend-310p", imports: str = '"" : 18') -> list[Finding]:
    model = OnnxModel(parser.parse_model(f"<ir_version: 10, opset_import: [{imports}]>\n{body}"))
    return list(checks()[name]().examine(Subject(model=model, rulebook=load_rulebook(target))))


EMPTY = """g (float[2, 0] h, float[2, 3] x) => (float[2, 3] y) <float[2, 0] none = {}> {
  a = Relu (h) b = Concat <axis = 1> (a, x) y = Identity (b) }"""


def test_an_empty_input_and_what_is_computed_from_it_are_errors() -> None:
    findings = found("zero-size-dimension", EMPTY)
    assert [f.message for f in findings] == [
        "the input h has the shape [2, 0]",
        "Relu gives a tensor of shape [2, 0]",
    ]
    assert all(f.severity is Severity.ERROR and "general_restrictions" in f.evidence.source for f in findings)


@pytest.mark.parametrize("target", ["onnx", "onnxruntime", "tensorrt"])
def test_other_targets_take_empty_tensors(target: str) -> None:
    assert found("zero-size-dimension", EMPTY, target) == []


def test_an_empty_constant_is_taken() -> None:
    body = "g (float[2, 3] x) => (float[2, 3] y) <float[2, 0] none = {}> { y = Concat <axis = 1> (none, x) }"
    assert found("zero-size-dimension", body) == []


PLAIN = "g (float[2, 3] x) => (float[2, 3] y) { y = Relu (x) }"


def test_a_domain_that_no_node_uses_is_a_warning() -> None:
    (finding,) = found("unused-domain", PLAIN, imports='"" : 18, "com.microsoft" : 1')
    assert finding.severity is Severity.WARNING
    assert finding.message == "the model imports the domain com.microsoft at opset 1, and no node uses it"
    assert "E16005" in finding.evidence.rule


def test_domains_that_are_used_or_taken_are_no_finding() -> None:
    assert found("unused-domain", PLAIN) == []
    used = PLAIN.replace("Relu", "npu.NPUGru")
    assert found("unused-domain", used, imports='"" : 18, "npu" : 1') == []
    for target in ("onnxruntime", "onnxruntime-cann"):
        assert found("unused-domain", PLAIN, target, '"" : 18, "com.microsoft" : 1') == []


OPEN = "g (float[batch, 3] x, float[2] z) => (float[batch, 3] y) { y = Relu (x) }"


@pytest.mark.parametrize(
    ("target", "forms"),
    [
        ("ascend-310p", "takes fixed sizes, up to 100 gears, or ranges"),
        ("ascend-310b", "takes fixed sizes, up to 100 gears, no ranges"),
        ("ascend-950", "takes fixed sizes, up to 256 gears, or ranges"),
    ],
)
def test_an_open_size_is_a_note_that_says_what_the_compiler_takes(target: str, forms: str) -> None:
    (finding,) = found("dynamic-input-shape", OPEN, target)
    assert finding.severity is Severity.NOTE
    assert finding.message == f"sizes are left open: x[batch, 3]; {target} {forms}"
    assert finding.evidence.source


def test_fixed_sizes_and_other_targets_are_silent() -> None:
    assert found("dynamic-input-shape", PLAIN) == []
    for target in ("onnx", "onnxruntime", "onnxruntime-cann", "tensorrt"):
        assert found("dynamic-input-shape", OPEN, target) == []
