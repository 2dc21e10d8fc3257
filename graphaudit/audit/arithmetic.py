"""How much a node computes, by formula, in floating-point operations. Imports nothing heavy.

A multiplication and an addition count as two, and products count nothing else, as in `torch.utils.flop_counter`, whose
formulas for matrix products, convolutions and attention these are. Recurrent layers are their matrix products. Any
other node counts one for each element that it gives or, where it reduces, that it reads; moving data counts nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphaudit.graphs.view import Node, Value

# What moves data, or holds graphs of its own whose nodes count by themselves.
_ONNX_MOVES = """
Reshape Transpose Squeeze Unsqueeze Flatten Slice Split Concat Gather GatherElements GatherND Expand Tile
Identity Shape Size Constant ConstantOfShape Pad ScatterElements ScatterND DepthToSpace SpaceToDepth If Loop
Scan Range
"""
_ATEN_MOVES = """
view reshape transpose permute t squeeze unsqueeze flatten unflatten slice select split split_with_sizes chunk
unbind cat stack gather index index_select expand expand_as repeat clone contiguous detach lift_fresh_copy
copy zeros ones full empty zeros_like ones_like full_like arange alias scatter slice_scatter select_scatter
as_strided constant_pad_nd movedim embedding sym_size sym_numel getitem cond while_loop
_assert_tensor_metadata
"""
_MOVES = frozenset((_ONNX_MOVES + _ATEN_MOVES).split())


def operations(node: Node) -> int:
    """Floating-point operations of one run, a size that is a name counted as 1; 0 where a shape is not known."""
    name = node.op.split(".")[1] if "." in node.op else node.op
    if name in _MOVES:
        return 0
    formula = _FORMULAS.get(name, _elementwise)
    values = [v for v in (*node.inputs, *node.outputs) if v is not None and v.name]
    return formula(node) if values and all(v.shape is not None for v in values) else 0


def _product(node: Node) -> int:
    """A matrix product: two operations for each element of the result and each term of its sum."""
    terms = _sizes(node.inputs[0])[-2 if node.attributes.get("transA") else -1]
    return 2 * prod(_sizes(node.outputs[0])) * terms


def _added_product(node: Node) -> int:
    """`addmm(bias, a, b)`: the product alone is counted."""
    return 2 * prod(_sizes(node.outputs[0])) * _sizes(node.inputs[1])[-1]


def _convolution(node: Node) -> int:
    """Two operations for each weight of a filter and each position of it, in the result or, transposed, in the data."""
    data, weight = node.inputs[:2]
    transposed = "ConvTranspose" in node.op or "conv_transpose" in node.op or bool(node.attributes.get("transposed"))
    return 2 * prod(_sizes(data if transposed else node.outputs[0])) * prod(_sizes(weight)[1:])


def _attention(node: Node) -> int:
    """Query times keys, and the weights times values."""
    query, key, value = (_sizes(v) for v in node.inputs[:3])
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _recurrent(node: Node) -> int:
    """ONNX LSTM, GRU and RNN: every weight of W and R once for each step and sequence."""
    data, weights, recurrence = (_sizes(v) for v in node.inputs[:3])
    return 2 * data[0] * data[1] * (prod(weights) + prod(recurrence))


def _aten_recurrent(node: Node) -> int:
    """`aten.gru.input` and its like: every matrix among the parameters once for each step and sequence."""
    steps = prod(_sizes(node.inputs[0])[:-1])
    matrices = [v for v in node.inputs[1:] if v is not None and v.is_constant and len(v.shape or ()) == 2]
    return 2 * steps * sum(prod(_sizes(m)) for m in matrices)


def _elementwise(node: Node) -> int:
    return max((prod(_sizes(v)) for v in (*node.inputs, *node.outputs) if v is not None and v.name), default=0)


def _sizes(value: Value | None) -> list[int]:
    return [s if isinstance(s, int) else 1 for s in (value.shape or ())] if value is not None else []


_FORMULAS: dict[str, Callable[[Node], int]] = {
    **dict.fromkeys(("MatMul", "Gemm", "mm", "bmm", "matmul", "linear", "mv", "dot"), _product),
    **dict.fromkeys(("addmm", "baddbmm"), _added_product),
    **dict.fromkeys(("Conv", "ConvTranspose", "convolution", "conv1d", "conv2d", "conv3d"), _convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _convolution),
    **dict.fromkeys(("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu"), _attention),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(("gru", "lstm", "rnn_tanh", "rnn_relu"), _aten_recurrent),
}
