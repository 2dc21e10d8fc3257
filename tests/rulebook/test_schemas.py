"""The `onnx` target: what the standard says."""

from __future__ import annotations

import onnx
import pytest

from graphaudit.rulebook import Support, load_rulebook
from tests.rulebook.models import checker_error, make_model, make_node, plain_nodes


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


SAMPLE = ("Add", "Cast", "Clip", "CumSum", "Gelu", "LSTM", "Loop", "MatMul", "MeanVarianceNormalization", "Relu")


def test_every_prediction_of_a_sample_is_what_the_checker_and_inference_say():
    # benchmarks/onnx_predictions.py does this for all operators at all opsets.
    rulebook = load_rulebook("onnx")
    seen = []
    for node in plain_nodes((*SAMPLE, "ReduceSum", "Scatter", "Upsample", "Where"), (9, 13, 18, 23)):
        support, error = rulebook.answer(node).support, checker_error(make_model(node))
        if support is not Support.LIMITED:  # where the standard and its own body differ
            assert (support is Support.SUPPORTED) == (error is None), (node, error)
            seen.append(error is None)
    assert len(seen) > 400 and 100 < sum(seen) < len(seen) - 100
