"""The predictions for ONNX Runtime against what its sessions do."""

from __future__ import annotations

import re
import time
from collections import Counter

import numpy as np
import onnxruntime
import pytest

from graphaudit.graphs.view import Node, Value
from graphaudit.rulebook import Support, load_rulebook
from tests.rulebook.models import make_model, make_node, session_error, single_nodes

OPSETS = (11, 13, 17, 18, 20, 23)
# Operators that a policy may hold, of all kinds: plain kernels, functions, casts, several type variables, recurrences.
OPERATORS = """
    Abs Acos Add And ArgMax AveragePool BatchNormalization BitwiseAnd Celu Clip Concat Conv Cos CumSum Div Dropout
    Einsum Elu Equal Erf Exp Expand Flatten Floor GRU Gather GatherElements Gelu Gemm Greater GroupNormalization
    HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsNaN LSTM LayerNormalization LeakyRelu Less Log
    LogSoftmax MatMul Max MaxPool MeanVarianceNormalization Min Mish Mod Mul Neg NonZero Not OneHot Or PRelu Pow Range
    Reciprocal ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceSum Relu Reshape Round ScatterElements ScatterND
    Scatter Selu Shape Sigmoid Sign Sin Slice Softmax Softplus Softsign Split Sqrt Squeeze Sub Sum Swish Tanh
    ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample Where Xor
""".split()  # noqa: SIM905


def test_every_prediction_agrees_with_a_real_session():
    rulebook = load_rulebook("onnxruntime")
    seen: Counter[str] = Counter()
    wrong = []
    for node in single_nodes(OPERATORS, OPSETS):
        answer = rulebook.answer(node)
        error = session_error(make_model(node))
        runs = answer.support in (Support.SUPPORTED, Support.LIMITED)
        if answer.support is Support.UNKNOWN or runs != (error is None):
            dtypes = [v.dtype for v in node.inputs]
            wrong.append((node.op, node.opset, dtypes, answer.support.value, answer.reasons, error))
        seen[answer.support.value] += 1
    assert wrong == []
    assert seen[Support.SUPPORTED] > 1000, seen
    assert seen[Support.LIMITED] > 100, seen
    assert seen[Support.UNSUPPORTED] > 300, seen


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (make_node("Where", ("bool", "bool", "bool"), ("bool",)), r"Where\(16\) has no CPU kernel for bool; there are"),
        (make_node("Elu", ("float64",), ("float64",), 17), r"Elu\(6\) has no CPU kernel for float64"),
        (make_node("Gelu", ("float64",), ("float64",), 20), r"in its function body Erf\(13\) has no CPU kernel"),
        (make_node("Relu", ("float64",), ("float32",)), "in the dtype of its other inputs"),
        (make_node("Relu", ("bool",), ("bool",)), "takes no bool for X"),
        (make_node("Mish", opset=17), "Mish exists from opset 18 on"),
        (make_node("Relu", alpha=1.0), "has no attribute 'alpha'"),
    ],
)
def test_refusals_say_why(node: Node, reason: str):
    answer = load_rulebook("onnxruntime").answer(node)
    assert answer.support is Support.UNSUPPORTED
    assert re.search(reason, answer.reasons[0]), answer.reasons
    assert f"onnxruntime {onnxruntime.__version__}" in answer.evidence.source
    assert session_error(make_model(node)) is not None


def test_elu_in_float64_runs_as_its_function_body_from_opset_18_on():
    answer = load_rulebook("onnxruntime").answer(make_node("Elu", ("float64",), ("float64",), 18))
    assert answer.support is Support.SUPPORTED
    assert "runs as its function body" in answer.evidence.rule


def test_float16_is_computed_in_float32_where_there_is_no_kernel():
    answer = load_rulebook("onnxruntime").answer(make_node("Sin", ("float16",), ("float16",)))
    assert answer.support is Support.LIMITED
    assert "computed in float32" in answer.reasons[0]


def test_an_unknown_dtype_is_no_answer_where_it_decides():
    rulebook = load_rulebook("onnxruntime")
    assert rulebook.answer(make_node("Where", ("bool", None, None), ("bool",))).support is Support.UNSUPPORTED
    unknown = Node("n", "Elu", "", (Value("x"),), (Value("y"),), opset=17)
    assert rulebook.answer(unknown).support is Support.UNKNOWN
    decided = Node("n", "Identity", "", (Value("x", "float32"),), (Value("y"),), opset=17)
    assert rulebook.answer(decided).support is Support.SUPPORTED


def test_contrib_operators_are_judged_by_the_runtimes_own_schemas():
    rulebook = load_rulebook("onnxruntime")
    fused = make_node("FusedMatMul", ("float32", "float32"), opset=1, domain="com.microsoft")
    assert rulebook.answer(fused).support is Support.SUPPORTED
    absent = make_node("NoSuchOp", opset=1, domain="com.microsoft")
    assert rulebook.answer(absent).support is Support.UNSUPPORTED
    foreign = make_node("NPUGru", opset=1, domain="npu")
    assert rulebook.answer(foreign).support is Support.UNKNOWN


def test_the_highest_opset_is_one_that_a_session_loads():
    target = load_rulebook("onnxruntime").target
    assert session_error(make_model(make_node("Identity", opset=target.max_opset))) is None
    assert session_error(make_model(make_node("Identity", opset=target.max_opset + 1))) is not None


def test_ten_thousand_nodes_take_less_than_a_second():
    rulebook = load_rulebook("onnxruntime")
    nodes = [make_node("LeakyRelu", alpha=float(a)) for a in np.linspace(0, 1, 10_000)]
    start = time.process_time()
    for node in nodes:
        rulebook.answer(node)
    assert time.process_time() - start < 1.0
