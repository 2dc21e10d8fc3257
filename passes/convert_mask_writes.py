"""Writes and reductions through a boolean mask become selections, so that no shape depends on data.

    index_put(x, [mask], v)       →  where(mask, v, x)              x[mask] = v
    index(x, [mask]).sum(dims)    →  where(mask, x, 0).sum(dims')
    index(x, [mask]).mean(dims)   →  where(mask, x, 0).sum(dims') / (number of rows in mask, times the other sizes)

- The mask covers the first dimensions of x; dims includes dimension 0 of the selected rows, which becomes all of the
  dimensions of the mask in dims'.
- v has one element, or broadcasts over the dimensions that the mask does not cover.
- Reads that are reduced may also be asked for their size by assertions, which go with them.
- Left alone: several index tensors, integer indices, `accumulate`, values that differ from row to row, and reads whose
  rows are used one by one.

Writes are exact. Sums differ by rounding; the mean of no rows is NaN, as in torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rewrite.edit import insert_function, replace_node
from graphaudit.rewrite.operator_pass import argument
from graphaudit.rulebook.target import Target

_aten = torch.ops.aten
_WRITE, _READ = _aten.index_put.default, _aten.index.Tensor
_SUMS = {
    _aten.sum.default: "sum",
    _aten.sum.dim_IntList: "sum",
    _aten.mean.default: "mean",
    _aten.mean.dim: "mean",
}


class ConvertMaskWrites(Pass[Program]):
    """x[mask] = v, x[mask].sum() and x[mask].mean() → where."""

    name = "convert_mask_writes"
    level = Level.FX
    fixes = ("bool-mask-index", "index-put", "data-dependent-shape")
    target_ops = frozenset({"aten.index_put", "aten.index"})
    runs_after = ("remove_inference_noops",)
    claims = Claim.EQUIVALENT

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Writes first, then reads with all their reductions."""
        result = PassResult(artifact)
        for operator, convert in ((_WRITE, _convert_write), (_READ, _convert_read)):
            for node in artifact.graph.find_nodes(op="call_function", target=operator):
                if not any(_is_mask(index) for index in node.args[1]):
                    continue
                site = Site(node.name, artifact.place(node))
                reason = convert(node)
                (result.left if reason else result.rewritten).append(Site(site.node, site.place, reason))
        if result.changed:
            artifact.finish()
        return result


def _convert_write(node: fx.Node) -> str:
    """Replace a write; empty, or why it stays."""
    source, indices, value = node.args[:3]
    reason = _why_not_one_mask(indices)
    if reason:
        return reason
    if argument(node, "accumulate"):
        return "it accumulates"
    rank, covered = source.meta["val"].dim(), indices[0].meta["val"].dim()  # type: ignore[union-attr]
    written = value.meta["val"]  # type: ignore[union-attr]
    one = all(isinstance(size, int) and size == 1 for size in written.shape)
    if not one and written.dim() > rank - covered:
        return "the values differ from row to row"

    def select(x: Tensor, mask: Tensor, v: Tensor) -> Tensor:
        return torch.where(_widen(mask, rank), (v.reshape(()) if one else v).to(x.dtype), x)

    replace_node(node, insert_function(node, select, (source, indices[0], value)))  # type: ignore[index]
    return ""


def _convert_read(node: fx.Node) -> str:
    """Replace every reduction of a read; empty, or why it stays."""
    source, indices = node.args[:2]
    reason = _why_not_one_mask(indices)
    if reason:
        return reason
    reductions = [user for user in node.users if user.target in _SUMS]
    sizes = [user for user in node.users if user.target is _aten.sym_size.int]
    if not reductions or len(reductions) + len(sizes) != len(node.users):
        return "the selected rows are used one by one"
    if not all(_is_only_asserted(size) for size in sizes):
        return "the number of selected rows is used"
    if not all(0 in _dims(reduction) for reduction in reductions):
        return "a reduction of the selected rows keeps them apart"
    for reduction in reductions:
        new = insert_function(reduction, _reduced(reduction, node), (source, indices[0]))  # type: ignore[index]
        replace_node(reduction, new)
    for size in sizes:
        _erase_with_users(size)
    node.graph.erase_node(node)
    return ""


def _reduced(reduction: fx.Node, read: fx.Node) -> Callable[[Tensor, Tensor], Tensor]:
    """The reduction, as a function of what is read and the mask."""
    source, mask = read.args[0], read.args[1][0]  # type: ignore[index]
    rank, covered = source.meta["val"].dim(), mask.meta["val"].dim()  # type: ignore[union-attr]
    others = [dim + covered - 1 for dim in _dims(reduction) if dim > 0]
    dims = [*range(covered), *others]
    dtype = argument(reduction, "dtype")
    keepdim = bool("dim" in _parameters(reduction) and argument(reduction, "keepdim"))

    def total(x: Tensor, mask: Tensor) -> Tensor:
        wide = x if dtype is None else x.to(dtype)
        chosen = torch.where(_widen(mask, rank), wide, torch.zeros((), dtype=wide.dtype)).sum(dims, keepdim=keepdim)
        if keepdim and covered > 1:
            chosen = chosen.reshape(chosen.shape[covered - 1 :])
        if _SUMS[reduction.target] == "sum":
            return chosen
        return chosen / (mask.to(wide.dtype).sum() * math.prod(x.shape[dim] for dim in others))

    return total


def _why_not_one_mask(indices: Any) -> str:
    given = [index for index in indices if index is not None]
    if len(given) != 1 or indices[0] is None:
        return "the mask is not the only index, over the first dimensions"
    return ""


def _is_mask(index: Any) -> bool:
    return isinstance(index, fx.Node) and index.meta["val"].dtype == torch.bool


def _widen(mask: Tensor, rank: int) -> Tensor:
    return mask.reshape(*mask.shape, *(1,) * (rank - mask.dim()))


def _parameters(node: fx.Node) -> set[str]:
    return {parameter.name for parameter in node.target._schema.arguments}  # type: ignore[union-attr]


def _dims(reduction: fx.Node) -> list[int]:
    """The dimensions of the selected rows that are reduced, counted from 0."""
    rank = reduction.args[0].meta["val"].dim()  # type: ignore[union-attr]
    given = argument(reduction, "dim") if "dim" in _parameters(reduction) else None
    return sorted(dim % rank for dim in given) if given else list(range(rank))


def _is_only_asserted(size: fx.Node) -> bool:
    pending = list(size.users)
    while pending:
        node = pending.pop()
        if node.target is _aten._assert_scalar.default or node.target is torch.ops.aten.sym_constrain_range.default:
            continue
        if not (callable(node.target) and getattr(node.target, "__module__", "") == "_operator" and node.users):
            return False
        pending.extend(node.users)
    return True


def _erase_with_users(node: fx.Node) -> None:
    for user in list(node.users):
        _erase_with_users(user)
    if not node.users and node in node.graph.nodes:
        node.graph.erase_node(node)
