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
from graphaudit.rewrite.base import Level, Pass, PassOptions, PassResult
from graphaudit.rewrite.constants import constant
from graphaudit.rewrite.layers import (
    LINEAR,
    channels_back,
    channels_first,
    is_layer,
    parameters,
    replace_layer,
)
from graphaudit.rulebook.target import Target

_NORM = torch.ops.aten._native_batch_norm_legit_no_training.default


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
            name, place = node.name, artifact.place(node)
            reason = _fold(artifact, node, self.options.max_amplification)
            result.record(name, place, reason)
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
    if len(readers) == 1 and readers[0].target is LINEAR and readers[0].args[0] is result:
        return _fold_forwards(program, source, readers[0], norm, limit)
    return why_not_backwards


def _fold_backwards(program: Program, layer: fx.Node, result: fx.Node, norm: _Norm, limit: float) -> str:
    if not is_layer(layer):
        return "it stands neither after a linear layer or convolution nor before a linear layer"
    if len(layer.users) != 1:
        return f"{layer.name} has other readers than the batch norm"
    rank = layer.meta["val"].dim()
    if layer.target is LINEAR and rank != 2:
        return f"{layer.name} has rank {rank}: its features are not the batch norm's channels"
    found = parameters(program, layer)
    if isinstance(found, str):
        return found
    weight, bias = found
    rows = channels_first(layer, weight)
    size = rows.flatten(1).norm(dim=1) + bias.abs() + norm.mean.abs()
    if float((size / norm.deviation).max()) > limit:
        return _amplifies(size / norm.deviation)
    scaled = rows * norm.scale.view(-1, *(1,) * (rows.dim() - 1))
    new_bias = (bias - norm.mean) * norm.scale + norm.beta
    return replace_layer(program, layer, result, layer.args[0], channels_back(layer, scaled, weight), new_bias)


def _fold_forwards(program: Program, source: fx.Node, linear: fx.Node, norm: _Norm, limit: float) -> str:
    rank = source.meta["val"].dim()
    if rank != 2:
        return f"its input has rank {rank}: its channels are not the features of {linear.name}"
    found = parameters(program, linear)
    if isinstance(found, str):
        return found
    weight, bias = found
    amplification = (1 + norm.mean.abs()) / norm.deviation
    if float(amplification.max()) > limit:
        return _amplifies(amplification)
    return replace_layer(program, linear, linear, source, weight * norm.scale, bias + weight @ norm.shift)


def _read_norm(program: Program, node: fx.Node) -> _Norm | str:
    gamma, beta, mean, variance = (_constant(program, a) for a in node.args[1:5])
    if mean is None or variance is None:
        return "its running statistics are not constants"
    if (gamma is None and node.args[1] is not None) or (beta is None and node.args[2] is not None):
        return "its weight or bias is not a constant"
    deviation = torch.sqrt(variance + float(node.args[6]))  # type: ignore[arg-type]
    gamma = torch.ones_like(mean) if gamma is None else gamma
    return _Norm(gamma, torch.zeros_like(mean) if beta is None else beta, mean, deviation)


def _constant(program: Program, argument: object) -> torch.Tensor | None:
    value = constant(program, argument)
    return None if value is None else value.double()


def _amplifies(factors: torch.Tensor) -> str:
    channel = int(factors.argmax())
    return f"its variance in channel {channel} is so small that folding amplifies rounding {factors.max():.3g}-fold"
