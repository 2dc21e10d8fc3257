"""The median becomes the lower middle element of the sorted values.

    median(x, d).values  →  sort(x, d).values[(n - 1) // 2]      n = x.shape[d]; NaN where x holds NaN along d
    median(x)            →  the same over all elements

- Left alone: the index of the median, which torch leaves open among equal values; a number of elements that varies;
  no elements.

The results are exact.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument, results_read, shape
from graphaudit.rulebook.target import Target


class DecomposeMedian(OperatorPass):
    """median → sort and select."""

    name = "decompose_median"
    fixes = ("median", "unsupported-op")
    target_ops = frozenset({"aten.median"})
    claims = Claim.EQUIVALENT

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """Sort, where the middle is known and only the value is asked for."""
        source = node.args[0]
        assert isinstance(source, fx.Node)
        sizes = shape(source)
        whole = node.target is torch.ops.aten.median.default
        count = math.prod(sizes) if whole or not sizes else sizes[argument(node, "dim")]
        if not isinstance(count, int):
            return "the number of elements varies"
        if count == 0:
            return "there are no elements"
        if not whole and 1 in results_read(node):
            return "the index of the median is read"
        return _median if whole else _median_along


def _median(x: Tensor) -> Tensor:
    return _middle(x.reshape(-1), 0, keepdim=False)


def _median_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, None]:
    return (_middle(x, dim, keepdim) if x.dim() else x.clone()), None


def _middle(x: Tensor, dim: int, keepdim: bool) -> Tensor:
    at = (int(x.shape[dim]) - 1) // 2
    ordered = x.sort(dim).values
    middle = ordered.narrow(dim, at, 1) if keepdim else ordered.select(dim, at)
    if not x.is_floating_point():
        return middle
    return torch.where(x.isnan().any(dim, keepdim), torch.nan, middle)
