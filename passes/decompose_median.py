"""The median becomes the lower middle element of the sorted values, the k-th smallest the element before k.

    median(x, d)       →  sort(x, d)[(n - 1) // 2]      n = x.shape[d]; NaN, and its first place, where x holds NaN
    median(x)          →  the same over all elements, without a place
    kthvalue(x, k, d)  →  sort(x, d)[k - 1]

- Left alone: a number of elements that varies; no elements.

The values are exact. Of several equal values torch leaves open whose index it returns; here it is the first's.
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
    """median and kthvalue → sort and select."""

    name = "decompose_median"
    fixes = ("median", "unsupported-op")
    target_ops = frozenset({"aten.median", "aten.kthvalue"})
    claims = Claim.EQUIVALENT

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """Sort, where the middle is known and only the value is asked for."""
        source = node.args[0]
        assert isinstance(source, fx.Node)
        sizes = shape(source)
        if node.target is torch.ops.aten.kthvalue.default:
            return _kth
        whole = node.target is torch.ops.aten.median.default
        count = math.prod(sizes) if whole or not sizes else sizes[argument(node, "dim")]
        if not isinstance(count, int):
            return "the number of elements varies"
        if count == 0:
            return "there are no elements"
        if whole:
            return _median
        return _median_along if 1 in results_read(node) else _median_value_along


def _median(x: Tensor) -> Tensor:
    return _median_along(x.reshape(-1), 0)[0]


def _median_value_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, None]:
    return _median_along(x, dim, keepdim)[0], None


def _median_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    middle, index = _kth(x, (int(x.shape[dim]) - 1) // 2 + 1 if x.dim() else 1, dim, keepdim)
    if not x.is_floating_point() or not x.dim():
        return middle, index
    undefined = x.isnan()
    any_nan = undefined.any(dim, keepdim)
    first = undefined.to(torch.int32).argmax(dim, keepdim)
    return torch.where(any_nan, torch.nan, middle), torch.where(any_nan, first, index)


def _kth(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if not x.dim():
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    values, indices = x.sort(dim)
    if keepdim:
        return values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)
    return values.select(dim, k - 1), indices.select(dim, k - 1)
