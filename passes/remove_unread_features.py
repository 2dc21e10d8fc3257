"""A linear layer computes only the features that anything reads.

    split(linear(x, W, b), sizes, -1)[i]     →  linear(x, W[rows], b[rows])       also chunk
    linear(x, W, b)[..., first:end]          →  linear(x, W[rows], b[rows])

- The features are the last dimension; what is read of them is one run of neighbours, the same for all readers.
- Weights and bias are constants that forward does not write to.
- Left alone where different features are read here and there.

Gaussian policies compute mean and deviation in one layer; the action that is deployed needs the mean. Each feature is
the same sum as before; where a runtime adds in another order for another number of rows, it differs by rounding.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch
from torch import fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import Level, Pass, PassResult
from graphaudit.rewrite.layers import LINEAR, parameters, replace_layer
from graphaudit.rewrite.operator_pass import argument
from graphaudit.rulebook.target import Target

_aten = torch.ops.aten
_SPLITS = (_aten.split.Tensor, _aten.split_with_sizes.default)
_SLICE = _aten.slice.Tensor

Rows = tuple[int, int]


class RemoveUnreadFeatures(Pass[Program]):
    """The rows of a weight that nothing reads go."""

    name = "remove_unread_features"
    level = Level.FX
    target_ops = frozenset({"aten.split", "aten.split_with_sizes", "aten.slice"})
    runs_after = ("remove_inference_noops", "fold_batch_norm", "fold_affine_steps")
    claims = Claim.EQUIVALENT

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Every linear layer of the main graph, whatever the target."""
        result = PassResult(artifact)
        for layer in artifact.graph.find_nodes(op="call_function", target=LINEAR):
            parts = [part for reader in layer.users for part in _parts(layer, reader)]
            if not parts:
                continue
            name, place = layer.name, artifact.place(layer)
            reason = _narrow(artifact, layer, parts)
            result.record(name, place, reason)
        if result.changed:
            artifact.finish()
        return result


def _parts(layer: fx.Node, reader: fx.Node) -> Iterator[tuple[fx.Node, Rows]]:
    """The parts of the features that a reader takes, and their rows; of a reader that takes all, nothing."""
    size = layer.meta["val"].shape[-1]
    last = layer.meta["val"].dim() - 1
    if reader.op != "call_function" or reader.target not in (*_SPLITS, _SLICE):
        return
    if int(argument(reader, "dim")) % (last + 1) != last:
        return
    if reader.target is _SLICE:
        first, end, step = (argument(reader, name) for name in ("start", "end", "step"))
        if step == 1 and isinstance(first, int | None) and isinstance(end, int | None):
            yield reader, slice(first, min(sys.maxsize, size if end is None else end)).indices(size)[:2]
        return
    sizes = [part.shape[-1] for part in reader.meta["val"]]
    for getitem in reader.users:
        index = int(getitem.args[1])  # type: ignore[arg-type]
        if getitem.users:
            yield getitem, (sum(sizes[:index]), sum(sizes[: index + 1]))


def _narrow(program: Program, layer: fx.Node, parts: list[tuple[fx.Node, Rows]]) -> str:
    """Empty, or why the layer stays."""
    size = layer.meta["val"].shape[-1]
    if any(not list(_parts(layer, reader)) for reader in layer.users):
        return "all of its features are read"
    (first, end), *others = {rows for _, rows in parts}
    if others:
        return "different features are read in different places"
    if (first, end) == (0, size):
        return "all of its features are read"
    found = parameters(program, layer)
    if isinstance(found, str):
        return found
    weight, bias = found
    for part, _ in parts:
        reason = replace_layer(program, layer, part, layer.args[0], weight[first:end], bias[first:end])
        if reason:
            return reason
    return ""
