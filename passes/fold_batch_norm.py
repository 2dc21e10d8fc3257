"""A batch norm in eval mode is folded into the weights of the layer before or after it.

    batch_norm(linear(x, W, b))            →  linear(x, W·s, (b - mean)·s + beta)        s = gamma / sqrt(var + eps)
    batch_norm(conv(x, W, b))              →  conv(x, W·s, (b - mean)·s + beta)
    linear(batch_norm(x), W, b)            →  linear(x, W·s, b + W·(beta - mean·s))

- conv is conv1d, conv2d, conv3d, convolution, or a transposed convolution; groups are taken into account.
- Weights, bias and statistics are constants that forward does not write to.
- Nothing else reads the value between the two layers.
- A linear layer meets a batch norm only on inputs of rank 2, where both mean the same dimension by channel.
- A convolution after a batch norm stays as it is: its padding is zero before the norm, not after it.
- Left alone where folding amplifies rounding: (|W| + |b| + |mean|) / sqrt(var + eps) above `max_amplification` (4096)
  in some channel, |W| the Euclidean norm of its weights (1 for folding forwards). A running variance near zero gives
  such numbers.

The new weights are computed in float64 and rounded once. The results differ from the original by rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from msgspec import Meta
from torch import fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import Level, Pass, PassOptions, PassResult, Site
from graphaudit.rewrite.edit import insert_call, replace_node
from graphaudit.rulebook.target import Target

_aten = torch.ops.aten
_NORM = _aten._native_batch_norm_legit_no_training.default
_LINEAR = _aten.linear.default
_CONVOLUTION = _aten.convolution.default
_CONVS = tuple(
    getattr(op, kind) for op in (_aten.conv1d, _aten.conv2d, _aten.conv3d) for kind in ("default", "padding")
)
_TRANSPOSED = (_aten.conv_transpose1d.default, _aten.conv_transpose2d.input, _aten.conv_transpose3d.input)
# The position of `groups`, where it is not the default, among the arguments of a convolution.
_GROUPS = {_CONVOLUTION: 8, **dict.fromkeys(_CONVS, 6), **dict.fromkeys(_TRANSPOSED, 6)}


class FoldBatchNormOptions(PassOptions, frozen=True):
    """`max_amplification`: fold only where rounding grows by at most this factor."""

    max_amplification: Annotated[float, Meta(gt=0)] = 4096.0


class FoldBatchNorm(Pass[Program]):
    """Batch norm in eval mode → the weights of its neighbour."""

    name = "fold_batch_norm"
    level = Level.FX
    target_ops = frozenset({"aten._native_batch_norm_legit_no_training"})
    runs_after = ("remove_inference_noops",)
    claims = Claim.EQUIVALENT
    Options = FoldBatchNormOptions

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Fold each batch norm backwards if possible, else forwards, else say why not."""
        result = PassResult(artifact)
        for node in artifact.graph.find_nodes(op="call_function", target=_NORM):
            site = Site(node.name, artifact.place(node))
            reason = _fold(artifact, node, self.options.max_amplification)
            if reason:
                result.left.append(Site(site.node, site.place, reason))
            else:
                result.rewritten.append(site)
        if result.changed:
            artifact.finish()
        return result


@dataclass(frozen=True)
class _Norm:
    """What a batch norm does to each channel, in float64: `x * scale + shift`."""

    gamma: torch.Tensor
    beta: torch.Tensor
    mean: torch.Tensor
    deviation: torch.Tensor  # sqrt(var + eps)

    @property
    def scale(self) -> torch.Tensor:
        return self.gamma / self.deviation

    @property
    def shift(self) -> torch.Tensor:
        return self.beta - self.mean * self.scale


def _fold(program: Program, node: fx.Node, limit: float) -> str:
    """Fold the batch norm `node`; empty, or why that cannot be done."""
    norm = _read_norm(program, node)
    if isinstance(norm, str):
        return norm
    results = list(node.users)
    if [r.args[1] for r in results] != [0]:
        return "its batch statistics are read as well as its result"
    source, result = node.args[0], results[0]
    assert isinstance(source, fx.Node)
    why_not_backwards = _fold_backwards(program, source, result, norm, limit)
    if not why_not_backwards:
        return ""
    readers = list(result.users)
    if len(readers) == 1 and readers[0].target is _LINEAR and readers[0].args[0] is result:
        return _fold_forwards(program, source, readers[0], norm, limit)
    return why_not_backwards


def _fold_backwards(program: Program, layer: fx.Node, result: fx.Node, norm: _Norm, limit: float) -> str:
    if layer.op != "call_function" or layer.target not in (_LINEAR, *_GROUPS):
        return "it stands neither after a linear layer or convolution nor before a linear layer"
    if len(layer.users) != 1:
        return f"{layer.name} has other readers than the batch norm"
    rank = layer.meta["val"].dim()
    if layer.target is _LINEAR and rank != 2:
        return f"{layer.name} has rank {rank}: its features are not the batch norm's channels"
    parameters = _parameters(program, layer, norm)
    if isinstance(parameters, str):
        return parameters
    weight, bias = parameters
    rows = _channels_first(layer, weight)
    size = rows.flatten(1).norm(dim=1) + bias.abs() + norm.mean.abs()
    if float((size / norm.deviation).max()) > limit:
        return _amplifies(size / norm.deviation)
    scaled = rows * norm.scale.view(-1, *(1,) * (rows.dim() - 1))
    new_bias = (bias - norm.mean) * norm.scale + norm.beta
    return _replace(program, layer, result, layer.args[0], _channels_back(layer, scaled, weight), new_bias)


def _fold_forwards(program: Program, source: fx.Node, linear: fx.Node, norm: _Norm, limit: float) -> str:
    rank = source.meta["val"].dim()
    if rank != 2:
        return f"its input has rank {rank}: its channels are not the features of {linear.name}"
    parameters = _parameters(program, linear, norm=None)
    if isinstance(parameters, str):
        return parameters
    weight, bias = parameters
    amplification = (1 + norm.mean.abs()) / norm.deviation
    if float(amplification.max()) > limit:
        return _amplifies(amplification)
    return _replace(program, linear, linear, source, weight * norm.scale, bias + weight @ norm.shift)


def _replace(
    program: Program, layer: fx.Node, result: fx.Node, source: object, weight: torch.Tensor, bias: torch.Tensor
) -> str:
    """Put `layer` with new parameters, reading `source`, in the place of `result`."""
    dtype = result.meta["val"].dtype
    weight, bias = weight.to(dtype), bias.to(dtype)
    if not (weight.isfinite().all() and bias.isfinite().all()):
        return f"the folded weights are not finite in {str(dtype).removeprefix('torch.')}"
    constants = [program.add_constant(t, f"{layer.name}_{part}") for t, part in ((weight, "weight"), (bias, "bias"))]
    new = insert_call(result, layer.target, (source, *constants, *layer.args[3:]), layer.kwargs, source=layer)  # type: ignore[arg-type]
    replace_node(result, new)
    return ""


def _read_norm(program: Program, node: fx.Node) -> _Norm | str:
    gamma, beta, mean, variance = (_constant(program, a) for a in node.args[1:5])
    if mean is None or variance is None:
        return "its running statistics are not constants"
    if (gamma is None and node.args[1] is not None) or (beta is None and node.args[2] is not None):
        return "its weight or bias is not a constant"
    deviation = torch.sqrt(variance + float(node.args[6]))  # type: ignore[arg-type]
    gamma = torch.ones_like(mean) if gamma is None else gamma
    return _Norm(gamma, torch.zeros_like(mean) if beta is None else beta, mean, deviation)


def _parameters(program: Program, layer: fx.Node, norm: _Norm | None) -> tuple[torch.Tensor, torch.Tensor] | str:
    """Weight and bias of a layer in float64, or why they cannot be had. No bias is a bias of zeros."""
    if set(layer.kwargs) & {"weight", "bias", "input"}:
        return f"{layer.name} takes its parameters by name"
    weight = _constant(program, layer.args[1])
    given = layer.args[2] if len(layer.args) > 2 else None
    bias = _constant(program, given)
    if weight is None or (bias is None and given is not None):
        return f"the weights of {layer.name} are not constants"
    if bias is None:
        bias = weight.new_zeros(len(norm.mean) if norm is not None else len(weight))
    return weight, bias


def _constant(program: Program, argument: object) -> torch.Tensor | None:
    """A parameter or buffer in float64; None if `argument` is none, or if forward writes to it."""
    value = program.value(argument)
    if value is None or not isinstance(argument, fx.Node):
        return None
    specs = program.exported.graph_signature.input_specs
    name = next(s.target for s in specs if s.arg.name == argument.name)
    return None if name in program.mutated else value.detach().double()


def _channels_first(layer: fx.Node, weight: torch.Tensor) -> torch.Tensor:
    """The weight with the output channels as its first dimension. A transposed one is (in, out / groups, …)."""
    if not _is_transposed(layer):
        return weight
    groups = _groups(layer)
    inputs, outputs, *kernel = weight.shape
    grouped = weight.reshape(groups, inputs // groups, outputs, *kernel)
    return grouped.transpose(1, 2).reshape(groups * outputs, inputs // groups, *kernel)


def _channels_back(layer: fx.Node, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    if not _is_transposed(layer):
        return rows
    groups = _groups(layer)
    outputs, inputs, *kernel = rows.shape
    return rows.reshape(groups, outputs // groups, inputs, *kernel).transpose(1, 2).reshape(weight.shape)


def _is_transposed(layer: fx.Node) -> bool:
    return layer.target in _TRANSPOSED or (layer.target is _CONVOLUTION and bool(layer.args[6]))


def _groups(layer: fx.Node) -> int:
    position = _GROUPS[layer.target]
    groups = layer.args[position] if len(layer.args) > position else layer.kwargs.get("groups", 1)
    assert isinstance(groups, int)
    return groups


def _amplifies(factors: torch.Tensor) -> str:
    channel = int(factors.argmax())
    return f"its variance in channel {channel} is so small that folding amplifies rounding {factors.max():.3g}-fold"
