"""Selections of which a fixed number is taken become gathers of that many, for targets of fixed shapes.

    repeat_interleave(x, counts)[:k]  →  x[i], i[p] = number of ends that are at most p, ends = cumsum(counts)
    x[mask][:k]                       →  as above, of the rows that mask covers, counts = mask
    masked_select(x, mask)[:k]        →  as above, of x.flatten()
    nonzero(mask)[:k]                 →  i itself, as coordinates

- Only for targets that take no shapes that depend on data (`Target.dynamic_shapes`).
- k is a positive number in the code, and nothing else reads the selection, or how many there are.
- The mask is the only index, over the first dimensions of x.

The graph has one more output: it is true where there are fewer than k, because eager gives a shorter tensor there.
Where it is false, the result is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.findings import Place
from graphaudit.graphs.fx_view import operator_name
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import Level, Pass, PassResult
from graphaudit.rewrite.edit import erase_with_readers, insert_function, is_only_asserted, propagate_from, replace_node
from graphaudit.rewrite.operator_pass import argument
from graphaudit.rulebook.target import Target

_aten = torch.ops.aten
_SELECTIONS = frozenset({"aten.repeat_interleave", "aten.index", "aten.masked_select", "aten.nonzero"})


class ConvertCutSelections(Pass[Program]):
    """The first k of a selection → a gather of k."""

    name = "convert_cut_selections"
    level = Level.FX
    fixes = ("data-dependent-shape", "repeat-interleave-tensor", "bool-mask-index", "nonzero", "dynamic-shape-op")
    target_ops = _SELECTIONS
    runs_after = ("remove_inference_noops", "convert_row_selections")
    only_without = ("dynamic_shapes",)
    claims = Claim.BOUNDED

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Replace each slice of a selection, or leave the selection."""
        result = PassResult(artifact)
        for node in list(artifact.graph.nodes):
            if node.op != "call_function" or not _selects(node):
                continue
            place = artifact.place(node)
            reason = _why_left(node)
            if not reason:
                _convert(artifact, node, place)
            result.record(node.name, place, reason)
        if result.changed:
            artifact.finish()
        return result


def _selects(node: fx.Node) -> bool:
    name = operator_name(node.target)[0].rpartition(".")[0]
    if name == "aten.repeat_interleave":
        return node.target is _aten.repeat_interleave.self_Tensor and argument(node, "output_size") is None
    if name == "aten.index":
        return any(isinstance(i, fx.Node) and i.meta["val"].dtype is torch.bool for i in node.args[1])  # type: ignore[union-attr]
    return name in _SELECTIONS


def _why_left(node: fx.Node) -> str:
    cuts = [user for user in node.users if user.target is not _aten.sym_size.int]
    if len(cuts) != 1 or not _is_cut(cuts[0], _dim(node)):
        return "it is not a fixed number of the selected that is read"
    if not all(is_only_asserted(user) for user in node.users if user is not cuts[0]):
        return "how many are selected is read"
    if node.target is _aten.index.Tensor and [i is None for i in node.args[1]] != [False]:  # type: ignore[union-attr]
        return "the mask is not the only index, over the first dimensions"
    if any(0 in source.meta["val"].shape for source in node.all_input_nodes):
        return "there is nothing to select from"
    return ""


def _dim(node: fx.Node) -> int:
    """The dimension of the result whose size is data."""
    if node.target is not _aten.repeat_interleave.self_Tensor or argument(node, "dim") is None:
        return 0
    return int(argument(node, "dim")) % node.meta["val"].dim()


def _is_cut(node: fx.Node, dim: int) -> bool:
    if node.target is not _aten.slice.Tensor or argument(node, "dim") % node.args[0].meta["val"].dim() != dim:  # type: ignore[union-attr]
        return False
    end = argument(node, "end")
    return argument(node, "start") in (None, 0) and argument(node, "step") == 1 and type(end) is int and end > 0


def _convert(program: Program, node: fx.Node, place: Place | None) -> None:
    cut = next(user for user in node.users if user.target is _aten.slice.Tensor)
    count = int(argument(cut, "end"))
    values, fewer = insert_function(cut, _first(node, count), node.args, node.kwargs)
    replace_node(cut, values)
    for size in list(node.users):
        erase_with_readers(size)
    node.graph.erase_node(node)
    propagate_from(values)
    where = f"{Path(place.file).name}:{place.line}" if place else "a line"
    program.add_guard(fewer, f"{where} takes {count} of a selection; a guard output is true where it has fewer", place)


def _first(node: fx.Node, count: int) -> Callable[..., tuple[Tensor, Tensor]]:
    """What takes the arguments of the selection and gives its first `count`, and whether there are fewer."""

    def repeated(x: Tensor, counts: Tensor, dim: int | None = None) -> tuple[Tensor, Tensor]:
        x, dim = (x.reshape(-1), 0) if dim is None else (x, dim)
        position, fewer = _positions(counts.expand(x.shape[dim]), count)
        return x.index_select(dim, position), fewer

    def masked(x: Tensor, indices: list[Tensor]) -> tuple[Tensor, Tensor]:
        position, fewer = _positions(indices[0].reshape(-1), count)
        return x.reshape(-1, *x.shape[indices[0].dim() :]).index_select(0, position), fewer

    def elements(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x, mask = torch.broadcast_tensors(x, mask)
        return masked(x, [mask])

    def coordinates(x: Tensor) -> tuple[Tensor, Tensor]:
        position, fewer = _positions((x != 0).reshape(-1), count)
        strides = [math.prod(x.shape[dim + 1 :]) for dim in range(x.dim())]
        parts = [
            torch.remainder(torch.div(position, stride, rounding_mode="floor"), size)
            for stride, size in zip(strides, x.shape, strict=True)
        ]
        return torch.stack(parts, 1), fewer

    return {
        _aten.repeat_interleave.self_Tensor: repeated,
        _aten.index.Tensor: masked,
        _aten.masked_select.default: elements,
        _aten.nonzero.default: coordinates,
    }[node.target]  # type: ignore[index, return-value]


def _positions(counts: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Which source each of the first `count` comes from, (count,) int64; and whether there are fewer, 0-d bool."""
    ends = counts.to(torch.int64).cumsum(0)
    passed = torch.arange(count).unsqueeze(1) >= ends
    return passed.sum(1).clamp(max=counts.shape[0] - 1), ends[-1] < count
