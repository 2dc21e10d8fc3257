"""Nodes and models for the rulebook's tests and benchmarks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
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
