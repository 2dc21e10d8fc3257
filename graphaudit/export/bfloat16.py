"""bfloat16 becomes float32: NumPy has no bfloat16, and ONNX Runtime's CPU kernels hardly any.

Every bfloat16 number is a float32 number, so weights keep their values. PyTorch's CPU kernels compute in float32 and
round the result to bfloat16 once; so does the model, by casting there and back, unless the target narrows to float16
anyway.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from graphaudit.rulebook.target import Target

_NARROW, _WIDE = ir.DataType.BFLOAT16, ir.DataType.FLOAT
# What moves numbers and makes none.
_MOVES = frozenset((
    "Constant", "ConstantOfShape", "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Expand",
    "Tile", "Concat", "Split", "Slice", "Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND",
    "Pad", "Where", "Max", "Min", "Relu", "Neg", "Abs", "ReduceMax", "ReduceMin", "MaxPool", "If", "Loop", "Scan",
))  # fmt: skip


def widen_bfloat16(model: ir.Model, target: Target) -> None:
    """Give every bfloat16 value of the model float32, in place, rounded to what bfloat16 can hold."""
    for graph in model.graphs():
        for node in list(graph):
            narrow = [v for v in node.outputs if v.dtype is _NARROW]
            _widen_attributes(node)
            for value in narrow:
                _retype(value)
                if node.op_type not in _MOVES and target.compute_dtype != "float16":
                    _round(graph, node, value)
        for value in (*graph.inputs, *graph.initializers.values()):
            _retype(value)


def _round(graph: ir.Graph, node: ir.Node, value: ir.Value) -> None:
    """Let the readers of `value` read it rounded."""
    there = ir.node("Cast", [value], {"to": int(_NARROW)})
    back = ir.node("Cast", [there.outputs[0]], {"to": int(_WIDE)})
    rounded = back.outputs[0]
    there.outputs[0].name, rounded.name = f"{value.name}_bfloat16", f"{value.name}_rounded"
    there.outputs[0].dtype, rounded.dtype = _NARROW, _WIDE
    there.outputs[0].shape = rounded.shape = value.shape
    ir.convenience.replace_all_uses_with(value, rounded, replace_graph_outputs=True)
    there.replace_input_with(0, value)
    graph.insert_after(node, [there, back])


def _widen_attributes(node: ir.Node) -> None:
    for name, attribute in list(node.attributes.items()):
        if name in ("to", "dtype") and attribute.type is ir.AttributeType.INT and attribute.value == _NARROW:
            node.attributes[name] = ir.AttrInt64(name, int(_WIDE))
        elif attribute.type is ir.AttributeType.TENSOR and attribute.value.dtype is _NARROW:
            node.attributes[name] = ir.AttrTensor(name, _widened(attribute.value))


def _retype(value: ir.Value) -> None:
    if value.dtype is not _NARROW:
        return
    if value.const_value is not None:
        value.const_value = _widened(value.const_value)
    value.dtype = _WIDE


def _widened(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    return ir.tensor(tensor.numpy().astype(np.float32), name=tensor.name)
