"""Linear layers and convolutions for passes that compute new weights for them."""

from __future__ import annotations

import torch
from torch import fx

from graphaudit.graphs.program import Program
from graphaudit.rewrite.constants import constant
from graphaudit.rewrite.edit import insert_call, replace_node

_aten = torch.ops.aten
LINEAR = _aten.linear.default
CONVOLUTION = _aten.convolution.default
CONVS = tuple(getattr(op, kind) for op in (_aten.conv1d, _aten.conv2d, _aten.conv3d) for kind in ("default", "padding"))
TRANSPOSED = (_aten.conv_transpose1d.default, _aten.conv_transpose2d.input, _aten.conv_transpose3d.input)
# The position of `groups`, where it is not the default, among the arguments of a convolution.
GROUPS = {CONVOLUTION: 8, **dict.fromkeys(CONVS, 6), **dict.fromkeys(TRANSPOSED, 6)}


def is_layer(node: object) -> bool:
    """Whether a node is a linear layer or a convolution, transposed ones included."""
    return isinstance(node, fx.Node) and node.op == "call_function" and node.target in (LINEAR, *GROUPS)


def parameters(program: Program, layer: fx.Node) -> tuple[torch.Tensor, torch.Tensor] | str:
    """Weight and bias of a layer in float64, or why they cannot be had. No bias is a bias of zeros."""
    if set(layer.kwargs) & {"weight", "bias", "input"}:
        return f"{layer.name} takes its parameters by name"
    weight = constant(program, layer.args[1])
    given = layer.args[2] if len(layer.args) > 2 else None
    bias = constant(program, given)
    if weight is None or (bias is None and given is not None):
        return f"the weights of {layer.name} are not constants"
    if bias is None:
        bias = weight.new_zeros(outputs(layer, weight))
    return weight.double(), bias.double()


def replace_layer(
    program: Program, layer: fx.Node, result: fx.Node, source: object, weight: torch.Tensor, bias: torch.Tensor
) -> str:
    """Put `layer` with new parameters, reading `source`, in the place of `result`. Empty, or why that cannot be."""
    dtype = result.meta["val"].dtype
    weight, bias = weight.to(dtype), bias.to(dtype)
    if not (weight.isfinite().all() and bias.isfinite().all()):
        return f"the folded weights are not finite in {str(dtype).removeprefix('torch.')}"
    constants = [program.add_constant(t, f"{layer.name}_{part}") for t, part in ((weight, "weight"), (bias, "bias"))]
    new = insert_call(result, layer.target, (source, *constants, *layer.args[3:]), layer.kwargs, source=layer)  # type: ignore[arg-type]
    replace_node(result, new)
    return ""


def outputs(layer: fx.Node, weight: torch.Tensor) -> int:
    """The number of output features or channels."""
    return weight.shape[1] * groups(layer) if is_transposed(layer) else weight.shape[0]


def channels_first(layer: fx.Node, weight: torch.Tensor) -> torch.Tensor:
    """The weight with the output channels as its first dimension. A transposed one is (in, out / groups, …)."""
    if not is_transposed(layer):
        return weight
    count = groups(layer)
    inputs, channels, *kernel = weight.shape
    grouped = weight.reshape(count, inputs // count, channels, *kernel)
    return grouped.transpose(1, 2).reshape(count * channels, inputs // count, *kernel)


def channels_back(layer: fx.Node, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The inverse of `channels_first`; `weight` has the layer's own shape."""
    if not is_transposed(layer):
        return rows
    count = groups(layer)
    channels, inputs, *kernel = rows.shape
    return rows.reshape(count, channels // count, inputs, *kernel).transpose(1, 2).reshape(weight.shape)


def is_transposed(layer: fx.Node) -> bool:
    """Whether a layer is a transposed convolution."""
    return layer.target in TRANSPOSED or (layer.target is CONVOLUTION and bool(layer.args[6]))


def groups(layer: fx.Node) -> int:
    """The groups of a convolution; 1 for a linear layer."""
    position = GROUPS.get(layer.target, len(layer.args))
    count = layer.args[position] if len(layer.args) > position else layer.kwargs.get("groups", 1)
    assert isinstance(count, int)
    return count
