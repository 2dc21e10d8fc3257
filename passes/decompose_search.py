"""Searches in sorted edges become counts of the edges below a value, or the steps of a binary search.

    searchsorted(edges, x)               →  count over i of not (edges[i] >= x)
    searchsorted(edges, x, right=True)   →  count over i of not (edges[i] > x)
    bucketize(x, edges)                  →  the same as searchsorted(edges, x)

- edges are one row for all of x, or one row for each row of x; a `sorter` is applied first.
- The comparison is negated, because torch puts NaN behind every edge.
- Edges that are not constant need not be sorted, whatever torch's documentation asks for: they are halved as torch
  halves them (aten/src/ATen/native/Bucketization.cpp), which gives its answer in any case. Where their number varies,
  they are taken as sorted and counted.
- Left alone: constant edges that are not sorted or hold NaN. That is an error of the policy's.

The results are exact.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument, shape
from graphaudit.rulebook.target import Target


class DecomposeSearch(OperatorPass):
    """searchsorted and bucketize → comparisons and a sum, or gathers."""

    name = "decompose_search"
    fixes = ("searchsorted", "bucketize", "unsupported-op")
    target_ops = frozenset({"aten.searchsorted", "aten.bucketize"})
    claims = Claim.EQUIVALENT

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """Compare with every edge, unless the order of the edges is known to be wrong."""
        searches = node.target._schema.name == "aten::searchsorted"  # type: ignore[union-attr]
        edges = program.value(_edges(node))
        if searches and argument(node, "sorter") is not None:
            edges = None
        if edges is not None and not bool((edges.diff(dim=-1) >= 0).all() if edges.numel() > 1 else True):
            return "the edges are not sorted"
        if edges is not None and bool(edges.isnan().any()):
            return "an edge is NaN"
        find = _halve if edges is None and isinstance(shape(_edges(node))[-1], int) else _count
        return partial(_searchsorted if searches else _bucketize, find)


def _edges(node: fx.Node) -> fx.Node:
    return argument(node, "sorted_sequence" if "searchsorted" in str(node.target) else "boundaries")  # type: ignore[no-any-return]


def _bucketize(
    find: Function, values: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    return find(boundaries, values, right).to(torch.int32 if out_int32 else torch.int64)  # type: ignore[no-any-return]


def _searchsorted(
    find: Function,
    sorted_sequence: Tensor,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    right = right or side == "right"
    edges = sorted_sequence if sorter is None else sorted_sequence.gather(-1, sorter)
    return find(edges, values, right).to(torch.int32 if out_int32 else torch.int64)  # type: ignore[no-any-return]


def _count(edges: Tensor, values: Any, right: bool) -> Tensor:
    rows = edges if edges.dim() == 1 else edges.unsqueeze(-2)
    wanted = values.unsqueeze(-1) if isinstance(values, Tensor) else values
    return _is_behind(rows, wanted, right).logical_not().sum(-1)


def _halve(edges: Tensor, values: Any, right: bool) -> Tensor:
    """The first edge behind each value, among those that are left: half of them after each step."""
    wanted = values if isinstance(values, Tensor) else torch.full((), values)
    size = edges.shape[-1]
    start, end = torch.zeros(wanted.shape, dtype=torch.int64), torch.full(wanted.shape, size)
    for _ in range(size.bit_length()):
        middle = start + (end - start) // 2
        at = middle.clamp(max=size - 1)
        found = edges.index_select(0, at.reshape(-1)).reshape(at.shape) if edges.dim() == 1 else edges.gather(-1, at)
        left, behind = start < end, _is_behind(found, wanted, right)
        start, end = torch.where(left & ~behind, middle + 1, start), torch.where(left & behind, middle, end)
    return start


def _is_behind(edges: Tensor, wanted: Any, right: bool) -> Tensor:
    return torch.gt(edges, wanted) if right else torch.ge(edges, wanted)
