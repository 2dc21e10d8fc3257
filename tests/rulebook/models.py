"""Nodes and models for the rulebook's tests and benchmarks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import onnx
import onnxruntime
from onnx import TensorProto, defs, helper

from graphaudit.graphs.view import Node, Value
from graphaudit.rulebook.signature import Signature, signature_of

TYPES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "bool": TensorProto.BOOL,
    "int8": TensorProto.INT8,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
}

# Values for the attributes that operators ask for.
ATTRIBUTES: dict[str, Any] = {
    "axes": [0],
    "axis": 0,
    "blocksize": 2,
    "detect_negative": 1,
    "direction": "LEFT",
    "equation": "i->i",
    "hidden_size": 2,
    "kernel_shape": [2, 2],
    "mode": "nearest",
    "num_groups": 1,
    "perm": [0],
    "pooled_shape": [1, 1],
    "shape": [1],
    "size": 3,
    "to": TensorProto.FLOAT,  # or what the output is
    "upper": 1,
}


def make_node(
    op: str,
    inputs: tuple[str | None, ...] = ("float32",),
    outputs: tuple[str, ...] = ("float32",),
    opset: int | None = 18,
    domain: str = "",
    shapes: tuple[tuple[int, ...] | None, ...] = (),
    **attributes: Any,
) -> Node:
    """A node over values of the given dtypes; a None among `inputs` is an omitted one."""
    shapes = (*shapes, *[None] * (len(inputs) - len(shapes)))
    given = tuple(Value(f"i{k}", d, s) if d else None for k, (d, s) in enumerate(zip(inputs, shapes)))
    made = tuple(Value(f"o{k}", d) for k, d in enumerate(outputs))
    return Node("n", op, domain, given, made, attributes, opset=opset)


def make_model(node: Node) -> Any:
    """The ONNX model that holds `node` alone."""
    inputs = [helper.make_tensor_value_info(v.name, TYPES[v.dtype], v.shape) for v in node.inputs if v is not None]
    outputs = [helper.make_tensor_value_info(v.name, TYPES[v.dtype], v.shape) for v in node.outputs]
    names = [v.name if v is not None else "" for v in node.inputs]
    proto = helper.make_node(node.op, names, [v.name for v in node.outputs], domain=node.domain, **node.attributes)
    imports = [helper.make_opsetid(node.domain, node.opset)]
    return helper.make_model(helper.make_graph([proto], "g", inputs, outputs), opset_imports=imports, ir_version=8)


def single_nodes(operators: Iterable[str], opsets: Iterable[int]) -> Iterator[Node]:
    """Every operator at every opset with every dtype that makes a valid node, with the required inputs only."""
    for op, opset, dtype in itertools.product(operators, opsets, TYPES):
        if defs.has(op, max_inclusive_version=opset):
            signature = signature_of(defs.get_schema(op, opset))
            wanted = set(signature.required) | ({"hidden_size"} & signature.attributes)
            if wanted <= ATTRIBUTES.keys():
                node = _fill(signature, opset, dtype, {name: ATTRIBUTES[name] for name in sorted(wanted)})
                if node is not None and _is_valid(node):
                    yield node


def plain_nodes(operators: Iterable[str], opsets: Iterable[int]) -> Iterator[Node]:
    """Every operator at every opset with every dtype for its first type variable, whether that makes it valid or not.

    Where an operator does not exist at an opset (yet, or any more), the node is one of its nearest version.
    """
    for op, opset, dtype in itertools.product(operators, opsets, TYPES):
        versions = [s.since_version for s in defs.get_all_schemas_with_history() if (s.name, s.domain) == (op, "")]
        known = max((v for v in versions if v <= opset), default=min(versions))
        signature = signature_of(defs.get_schema(op, known))
        wanted = set(signature.required) | ({"hidden_size"} & signature.attributes)
        first = (*signature.inputs, *signature.outputs)[0].variable
        if wanted <= ATTRIBUTES.keys() and _is_tensor(signature, first):
            types = signature.types | {first: signature.types[first] | {dtype}}
            widened = replace(signature, types=types)
            node = _fill(widened, opset, dtype, {name: ATTRIBUTES[name] for name in sorted(wanted)})
            if node is not None:
                yield _settled(node, signature)


def checker_error(model: Any) -> str | None:
    """What the checker of onnx says against a model's node, or strict shape inference against its types; or None."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {i.domain: i.version for i in model.opset_import}
    try:
        onnx.checker.check_node(model.graph.node[0], context)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
        return str(error)
    return None


def _settled(node: Node, signature: Signature) -> Node:
    """The node with the attributes that decide the dtype of its result."""
    (result, *_) = node.outputs
    number = TYPES[str(result.dtype)]
    deciding = {name: number for name in ("dtype", "output_datatype") if name in signature.attributes}
    if node.op in ("Constant", "ConstantOfShape"):
        deciding["value"] = helper.make_tensor("value", number, [1], [1])
    if node.op == "QuantizeLinear":  # without a zero point it gives uint8
        return replace(node, outputs=(replace(result, dtype="uint8"),))
    return replace(node, attributes={**node.attributes, **deciding})


def _is_tensor(signature: Signature, variable: str) -> bool:
    return bool(signature.types[variable] & TYPES.keys())


def session_error(model: Any) -> str | None:
    """What ONNX Runtime says against a model, or None."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return str(error)
    return None


def _fill(signature: Signature, opset: int, dtype: str, attributes: dict[str, object]) -> Node | None:
    chosen: dict[str, str] = {}

    def choose(index: int, parameters: Any) -> str | None:
        variable = parameters[min(index, len(parameters) - 1)].variable
        allowed = signature.types[variable]
        options = [d for d in (dtype, "int64", "float32", "bool", *TYPES) if d in allowed]
        return chosen.setdefault(variable, options[0]) if options else None

    inputs = [choose(i, signature.inputs) for i in range(max(signature.input_counts[0], 1 if signature.inputs else 0))]
    outputs = [choose(i, signature.outputs) for i in range(max(signature.output_counts[0], 1))]
    if None in inputs or None in outputs:
        return None
    if signature.op == "Resize" and opset >= 13:  # scales or sizes must be there, which its schema does not say
        inputs = [*inputs[:1], None, "float32"]
    if "to" in attributes:
        attributes["to"] = TYPES[str(outputs[0])]
    return make_node(signature.op, tuple(inputs), tuple(outputs), opset, **attributes)


def _is_valid(node: Node) -> bool:
    try:
        onnx.shape_inference.infer_shapes(make_model(node), check_type=True, strict_mode=True)
    except Exception:  # InferenceError, and ValueError or RuntimeError for some operators
        return False
    return True
