"""Nodes for the rulebook's tests."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto, helper

from graphaudit.graphs.view import Node, Value

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
