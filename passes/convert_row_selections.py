"""Selections of rows that are summed or averaged in the end keep all rows, and a mask that says which ones count.

    x[mask].sum(0)              →  where(mask, x, 0).sum(0)
    x[mask].mean(0)             →  where(mask, x, 0).sum(0) / mask.sum()
    f(x[mask]).mean(0)          →  as above, of f(x)                        f works row by row
    f(unique(ids)).mean(0)      →  as above, of f(s), s = sort(ids), where s[i] != s[i - 1]

- f is made of linear layers, embeddings, and element-wise functions of the rows, of numbers, and of tensors that lie
  behind the first dimension (a bias). It may branch into several sums and means.
- The mask covers the first dimensions of x, which become one; sums and means run over the rows, and over others if
  they like.
- What asserts the number of rows goes with it.
- Left alone: rows that something else reads, the number of rows where it is used, and the inverse and counts of unique.

The results differ by rounding. The mean of no rows is NaN, as in torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.fx_view import operator_name
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import Level, Pass, PassResult
from graphaudit.rewrite.edit import (
    erase_with_readers,
    insert_call,
    insert_function,
    is_only_asserted,
    replace_node,
)
from graphaudit.rewrite.operator_pass import argument, results_read
from graphaudit.rewrite.rows import ELEMENTWISE
from graphaudit.rulebook.target import Target

_aten = torch.ops.aten
_SUMS = frozenset({"aten.sum.default", "aten.sum.dim_IntList", "aten.mean.default", "aten.mean.dim"})


class ConvertRowSelections(Pass[Program]):
    """Sums and means of selected rows → masked sums and means of all rows."""

    name = "convert_row_selections"
    level = Level.FX
    fixes = ("bool-mask-index", "data-dependent-shape", "unique", "dynamic-shape-op")
    target_ops = frozenset({"aten.index", "aten._unique2"})
    runs_after = ("remove_inference_noops",)
    claims = Claim.EQUIVALENT

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Replace each selection with all that follows from it, or leave all of it."""
        result = PassResult(artifact)
        for node in list(artifact.graph.nodes):
            if node.op != "call_function" or not _selects(node):
                continue
            name, place = node.name, artifact.place(node)
            reason = _convert(node)
            result.record(name, place, reason)
        if result.changed:
            artifact.finish()
        return result


def _selects(node: fx.Node) -> bool:
    if node.target is _aten._unique2.default:
        return True
    return node.target is _aten.index.Tensor and any(_is_mask(index) for index in node.args[1])  # type: ignore[union-attr]


def _convert(node: fx.Node) -> str:
    """Replace a selection; empty, or why it stays."""
    if node.target is _aten._unique2.default:
        if results_read(node) != {0}:
            return "the inverse or the counts of unique are read"
        start = next(user for user in node.users if user.args[1] == 0)
        source, prepare = (node.args[0],), _sorted_rows
        if node.args[0].meta["val"].numel() == 0:  # type: ignore[union-attr]
            return "there are no elements"
    else:
        indices = node.args[1]
        if len([i for i in indices if i is not None]) != 1 or indices[0] is None:  # type: ignore[union-attr,index,arg-type]
            return "the mask is not the only index, over the first dimensions"
        start, source, prepare = node, (node.args[0], indices[0]), _all_rows  # type: ignore[index,assignment]
    chain: list[fx.Node] = []
    sums: list[fx.Node] = []
    sizes: list[fx.Node] = []
    for user in _followers(start):
        kind = sums if _name(user) in _SUMS else sizes if user.target is _aten.sym_size.int else chain
        kind.append(user)
    reason = _why_not(start, chain, sums, sizes)
    if reason:
        return reason
    rows, keep = insert_function(start, prepare, source)
    _rebuild(start, chain, sums, rows, keep)
    for dead in (*sizes, *reversed(chain), start):
        erase_with_readers(dead)
    return ""


def _followers(start: fx.Node) -> Iterator[fx.Node]:
    """What reads the rows, directly or through other functions of them, in the order of the graph; sums are ends."""
    followed = {start}
    for node in start.graph.nodes:
        if any(source in followed for source in node.all_input_nodes):
            yield node
            if _name(node) not in _SUMS and node.target is not _aten.sym_size.int:
                followed.add(node)


def _why_not(start: fx.Node, chain: list[fx.Node], sums: list[fx.Node], sizes: list[fx.Node]) -> str:
    rows = {start, *chain}
    for node in chain:
        if not _is_by_rows(node, rows):
            return f"{_name(node)} reads the selected rows, and does not work row by row"
    if not sums:
        return "the selected rows are never summed or averaged"
    if not all(0 in _dims(node) for node in sums):
        return "a sum over the selected rows keeps them apart"
    if not all(is_only_asserted(size) for size in sizes):
        return "the number of selected rows is used"
    return ""


def _is_by_rows(node: fx.Node, rows: set[fx.Node]) -> bool:
    if node.op != "call_function":
        return False
    if node.target is _aten.linear.default:
        return node.args[0] in rows and rows.isdisjoint(node.args[1:]) and node.meta["val"].dim() > 1
    if node.target is _aten.embedding.default:
        return node.args[1] in rows and node.args[0] not in rows
    if _name(node).rpartition(".")[0] not in ELEMENTWISE:
        return False
    rank = node.meta["val"].dim()
    for source in node.all_input_nodes:
        value = source.meta["val"]
        if not isinstance(value, Tensor) or (value.dim() >= rank if source not in rows else value.dim() != rank):
            return False
    return True


def _rebuild(start: fx.Node, chain: list[fx.Node], sums: list[fx.Node], rows: fx.Node, keep: fx.Node) -> None:
    new = {start: rows}
    for node in chain:
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: new.get(n, n))
        new[node] = insert_call(node, node.target, args, kwargs)  # type: ignore[arg-type]
    for node in sums:
        source: fx.Node = node.args[0]  # type: ignore[assignment]
        replace_node(node, insert_function(node, _masked(node), (new[source], keep)))


def _all_rows(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    return x.reshape(-1, *x.shape[mask.dim() :]), mask.reshape(-1)


def _sorted_rows(ids: Tensor) -> tuple[Tensor, Tensor]:
    ordered = ids.reshape(-1).sort().values
    first = torch.ones_like(ordered[:1], dtype=torch.bool)
    return ordered, torch.cat([first, ordered[1:] != ordered[:-1]])


def _masked(reduction: fx.Node) -> Callable[[Tensor, Tensor], Tensor]:
    dims, dtype = _dims(reduction), argument(reduction, "dtype")
    keepdim = bool("dim" in _parameters(reduction) and argument(reduction, "keepdim"))

    def reduce(rows: Tensor, keep: Tensor) -> Tensor:
        wide = rows if dtype is None else rows.to(dtype)
        counted = keep.reshape(-1, *(1,) * (rows.dim() - 1))
        total = torch.where(counted, wide, torch.zeros((), dtype=wide.dtype)).sum(dims, keepdim=keepdim)
        if "mean" not in _name(reduction):
            return total
        return total / (keep.to(wide.dtype).sum() * math.prod(rows.shape[dim] for dim in dims if dim))

    return reduce


def _is_mask(index: object) -> bool:
    return isinstance(index, fx.Node) and index.meta["val"].dtype == torch.bool


def _name(node: fx.Node) -> str:
    return operator_name(node.target)[0] if node.op == "call_function" else node.op


def _parameters(node: fx.Node) -> set[str]:
    return {parameter.name for parameter in node.target._schema.arguments}  # type: ignore[union-attr]


def _dims(reduction: fx.Node) -> list[int]:
    """The dimensions of the selected rows that are reduced, counted from 0."""
    rank = reduction.args[0].meta["val"].dim()  # type: ignore[union-attr]
    given = argument(reduction, "dim") if "dim" in _parameters(reduction) else None
    return sorted(dim % rank for dim in given) if given else list(range(rank))
