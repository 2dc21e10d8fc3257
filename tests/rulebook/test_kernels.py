"""The predictions for ONNX Runtime against what its sessions do."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import defs

from graphaudit.graphs.view import Node, Value
from graphaudit.rulebook import Support, load_rulebook
from graphaudit.rulebook.signature import Signature, signature_of
from tests.rulebook.models import TYPES, make_model, make_node

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
ATTRIBUTES = {
    "equation": "i->i",
    "kernel_shape": [2, 2],
    "num_groups": 1,
    "axis": 0,
    "hidden_size": 2,
    "mode": "nearest",
}


def single_nodes() -> list[Node]:
    """Every operator at every opset with every dtype that makes a valid node, required inputs only."""
    nodes = []
    for op, opset, dtype in itertools.product(OPERATORS, OPSETS, TYPES):
        if not defs.has(op, max_inclusive_version=opset):
            continue
        schema = defs.get_schema(op, opset)
        signature = signature_of(schema)
        wanted = set(signature.required) | ({"hidden_size"} & signature.attributes)
        if wanted <= ATTRIBUTES.keys():
            nodes.append(_fill(signature, opset, dtype, {name: ATTRIBUTES[name] for name in sorted(wanted)}))
    return [n for n in nodes if n is not None and _is_valid(n)]


def _fill(signature: Signature, opset: int, dtype: str, attributes: dict[str, object]) -> Node | None:
    chosen: dict[str, str] = {}

    def choose(index: int, parameters) -> str | None:
        variable = parameters[min(index, len(parameters) - 1)].variable
        allowed = signature.types[variable]
        options = [d for d in (dtype, "int64", "float32", "bool", *TYPES) if d in allowed]
        return chosen.setdefault(variable, options[0]) if options else None

    inputs = [choose(i, signature.inputs) for i in range(max(signature.input_counts[0], 1))]
    outputs = [choose(i, signature.outputs) for i in range(max(signature.output_counts[0], 1))]
    if None in inputs or None in outputs:
        return None
    return make_node(signature.op, tuple(inputs), tuple(outputs), opset, **attributes)


def _is_valid(node: Node) -> bool:
    try:
        onnx.shape_inference.infer_shapes(make_model(node), check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return False
    return True


def session_error(node: Node) -> str | None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        onnxruntime.InferenceSession(make_model(node).SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return str(error)
    return None


def test_every_prediction_agrees_with_a_real_session():
    rulebook = load_rulebook("onnxruntime")
    seen: Counter[str] = Counter()
    wrong = []
    for node in single_nodes():
        answer = rulebook.answer(node)
        error = session_error(node)
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
    assert session_error(node) is not None


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
    assert session_error(make_node("Identity", opset=target.max_opset)) is None
    assert session_error(make_node("Identity", opset=target.max_opset + 1)) is not None


def test_ten_thousand_nodes_take_less_than_a_second():
    rulebook = load_rulebook("onnxruntime")
    nodes = [make_node("LeakyRelu", alpha=float(a)) for a in np.linspace(0, 1, 10_000)]
    start = time.process_time()
    for node in nodes:
        rulebook.answer(node)
    assert time.process_time() - start < 1.0
