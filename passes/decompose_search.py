"""Searches in sorted edges become counts of the edges below a value.

    searchsorted(edges, x)               →  count over i of not (edges[i] >= x)
    searchsorted(edges, x, right=True)   →  count over i of not (edges[i] > x)
    bucketize(x, edges)                  →  the same as searchsorted(edges, x)

- edges are one row for all of x, or one row for each row of x; a `sorter` is applied first.
- The comparison is negated, because torch puts NaN behind every edge.
- Left alone: constant edges that are not sorted or hold NaN. What torch returns then depends on how it searches.

Edges that are not constant are taken as sorted, as torch does. The counts are exact.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument
from graphaudit.rulebook.target import Target


class DecomposeSearch(OperatorPass):
    """searchsorted and bucketize → comparisons and a sum."""

    name = "decompose_search"
    fixes = ("searchsorted", "bucketize", "unsupported-op")
    target_ops = frozenset({"aten.searchsorted", "aten.bucketize"})
    claims = Claim.EQUIVALENT

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """Compare with every edge, unless the order of the edges is known to be wrong."""
        searches = node.target._schema.name == "aten::searchsorted"  # type: ignore[union-attr]
        edges = program.value(argument(node, "sorted_sequence" if searches else "boundaries"))
        if searches and argument(node, "sorter") is not None:
            edges = None
        if edges is not None and not bool((edges.diff(dim=-1) >= 0).all() if edges.numel() > 1 else True):
            return "the edges are not sorted"
        if edges is not None and bool(edges.isnan().any()):
            return "an edge is NaN"
        return _searchsorted if searches else _bucketize


def _bucketize(values: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return _count(boundaries, values, right, out_int32)


def _searchsorted(
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
    return _count(edges if edges.dim() == 1 else edges.unsqueeze(-2), values, right, out_int32)


def _count(edges: Tensor, values: Any, right: bool, out_int32: bool) -> Tensor:
    wanted = values.unsqueeze(-1) if isinstance(values, Tensor) else values
    behind = edges > wanted if right else edges >= wanted
    return behind.logical_not().sum(-1, dtype=torch.int32 if out_int32 else torch.int64)
