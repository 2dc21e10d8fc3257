"""The mean of some features of a linear layer is a linear layer with fewer features.

    mean(view(linear(x, W, b), (…, m, n)), -2)   →  linear(x, mean(W), mean(b))     the means of rows of W
    sum(view(linear(x, W, b), (…, m, n)), -1)    →  linear(x, sum(W), sum(b))
    mean(linear(x, W, b), -1, keepdim=True)      →  linear(x, mean(W), mean(b))

- The view, which may be missing, divides the features into dimensions and leaves the others as they are. The mean or
  sum runs over one of these, and one remains.
- Nothing else reads the layer or the view; weights and bias are constants that forward does not write to.
- float32 and float64 only.

Distributional value functions (QR-DQN, TQC) average their quantiles: 200 times fewer features for the same action. New
weights are computed in float64 and rounded once; the results differ by rounding.
"""

from __future__ import annotations

import math

import torch
from torch import fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import Level, Pass, PassResult
from graphaudit.rewrite.layers import LINEAR, parameters, replace_layer
from graphaudit.rewrite.operator_pass import argument, shape
from graphaudit.rulebook.target import Target

_aten = torch.ops.aten
_MEAN, _SUM = _aten.mean.dim, _aten.sum.dim_IntList
_VIEWS = (_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default)


class FoldFeatureMeans(Pass[Program]):
    """Means and sums over features → weights."""

    name = "fold_feature_means"
    level = Level.FX
    target_ops = frozenset({"aten.mean", "aten.sum"})
    runs_after = ("remove_inference_noops", "fold_batch_norm", "fold_affine_steps")
    claims = Claim.EQUIVALENT

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Every mean and sum of the main graph that ends a linear layer, whatever the target."""
        result = PassResult(artifact)
        for node in list(artifact.graph.nodes):
            layer, view = _layer(node)
            if layer is None:
                continue
            name, place = node.name, artifact.place(node)
            reason = _fold(artifact, node, view, layer)
            result.record(name, place, reason)
        if result.changed:
            artifact.finish()
        return result


def _layer(node: fx.Node) -> tuple[fx.Node | None, fx.Node | None]:
    """The linear layer whose features a node reduces, and the view between them if there is one."""
    if node.op != "call_function" or node.target not in (_MEAN, _SUM):
        return None, None
    source = node.args[0]
    view = source if isinstance(source, fx.Node) and source.target in _VIEWS else None
    layer = view.args[0] if view is not None else source
    return (layer, view) if isinstance(layer, fx.Node) and layer.target is LINEAR else (None, None)


def _fold(program: Program, node: fx.Node, view: fx.Node | None, layer: fx.Node) -> str:
    """Empty, or why the layer stays."""
    if any(len(n.users) > 1 for n in (layer, view) if n is not None):
        return f"{layer.name} is read elsewhere too"
    if node.meta["val"].dtype not in (torch.float32, torch.float64) or argument(node, "dtype") is not None:
        return "it is not computed in float32 or float64"
    rank = layer.meta["val"].dim() - 1  # dimensions that are no features
    before = shape(view if view is not None else layer)
    if [str(size) for size in before[:rank]] != [str(size) for size in shape(layer)[:rank]]:
        return "the view mixes the features with other dimensions"
    features = [int(size) for size in before[rank:]]
    given = argument(node, "dim")
    dims = [int(dim) % len(before) for dim in ([given] if isinstance(given, int) else given or ())]
    if len(dims) != 1 or dims[0] < rank:
        return "it runs over other dimensions than one of the features"
    left = [size for place, size in enumerate(features) if place != dims[0] - rank]
    found = parameters(program, layer)
    if isinstance(found, str):
        return found
    reduced = [_reduce(node, value, features, dims[0] - rank) for value in found]
    width = math.prod(left)
    if [str(size) for size in shape(node)] != [*map(str, before[:rank]), str(width)]:
        return "the features that remain are not one dimension"
    return replace_layer(program, layer, node, layer.args[0], *reduced)


def _reduce(node: fx.Node, value: torch.Tensor, features: list[int], place: int) -> torch.Tensor:
    split = value.reshape(*features, *value.shape[1:])
    total = split.mean(place) if node.target is _MEAN else split.sum(place)
    return total.reshape(-1, *value.shape[1:])
