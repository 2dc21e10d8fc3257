"""The `onnx` target: what the standard says."""

from __future__ import annotations

import onnx
import pytest

from graphaudit.rulebook import Support, load_rulebook
from tests.rulebook.models import make_node


@pytest.mark.parametrize(
    ("node", "support", "reason"),
    [
        (make_node("Relu"), Support.SUPPORTED, ""),
        (make_node("Elu", ("float64",), ("float64",), 17), Support.SUPPORTED, ""),
        (make_node("Where", ("bool",) * 3, ("bool",)), Support.SUPPORTED, ""),
        (make_node("Relu", ("string",), ("string",)), Support.UNSUPPORTED, "takes no string"),
        (make_node("Gelu"), Support.UNSUPPORTED, "exists from opset 20 on, the model has opset 18"),
        (make_node("Scatter", ("float32", "int64", "float32")), Support.UNSUPPORTED, "deprecated since opset 11"),
        (make_node("Upsample", ("float32", "float32")), Support.UNSUPPORTED, "deprecated since opset 10"),
        (make_node("NoSuchOp"), Support.UNSUPPORTED, "the domain ai.onnx has no operator NoSuchOp"),
        (make_node("Relu", ("float32", "float32")), Support.UNSUPPORTED, "takes 1 inputs, not 2"),
        (make_node("Cast"), Support.UNSUPPORTED, "lacks its attribute 'to'"),
        (make_node("Cast", to=1), Support.SUPPORTED, ""),
        (make_node("Relu", opset=None), Support.UNSUPPORTED, "imports no opset"),
        (make_node("Fused", domain="mylib", opset=1), Support.UNKNOWN, "nothing is known of the domain mylib"),
    ],
)
def test_answers(node, support, reason):
    answer = load_rulebook("onnx").answer(node)
    assert answer.support is support, answer
    assert reason in "".join(answer.reasons)
    assert answer.evidence.source.endswith(onnx.__version__)


def test_the_target_knows_the_installed_opset():
    target = load_rulebook("onnx").target
    assert (target.opset, target.max_opset) == (18, onnx.defs.onnx_opset_version())
    assert target.compute_dtype == "float32"
