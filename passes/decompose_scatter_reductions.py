"""Reductions into scattered places that ONNX lacks, or torch writes wrongly, become sums and counts.

    scatter_reduce(x, d, i, s, "mean")   →  scatter_add(x, d, i, s) / (1 + scatter_add(0, d, i, 1))
    … with include_self=False            →  scatter_add(0, d, i, s) / scatter_add(0, d, i, 1), and x where nothing falls
    index_reduce(x, d, i, s, r)          →  scatter_reduce(x, d, i for every row, s, r)

- ONNX has no mean among the reductions of ScatterElements, and torch's translation leaves the division out.
- Left alone: means of integers, which torch rounds down.

Means differ by rounding: torch divides the same sums.
"""

from __future__ import annotations

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument
from graphaudit.rulebook.target import Target


class DecomposeScatterReductions(OperatorPass):
    """scatter_reduce with mean, and index_reduce → scatter_add and scatter_reduce."""

    name = "decompose_scatter_reductions"
    fixes = ("unsupported-op", "scatter-duplicates")
    target_ops = frozenset({"aten.scatter_reduce.two", "aten.index_reduce"})
    claims = Claim.EQUIVALENT

    def takes(self, node: fx.Node) -> bool:
        """Means, and whatever is reduced along an index."""
        return super().takes(node) and ("index_reduce" in str(node.target) or argument(node, "reduce") == "mean")

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """Sums and counts."""
        if argument(node, "reduce") == "mean" and not node.meta["val"].is_floating_point():
            return "the mean of integers is rounded down"
        return _index_reduce if "index_reduce" in str(node.target) else _mean


def _mean(
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,  # noqa: ARG001
    *,
    include_self: bool = True,
) -> Tensor:
    read = src[tuple(slice(size) for size in index.shape)]  # index may be smaller than src in every dimension
    zeros = torch.zeros_like(self)
    count = zeros.scatter_add(dim, index, torch.ones_like(read))
    if include_self:
        return self.scatter_add(dim, index, read) / (count + 1)
    return torch.where(count == 0, self, zeros.scatter_add(dim, index, read) / count.clamp(min=1))


def _index_reduce(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    shape = [1] * source.dim()
    shape[dim] = index.shape[0]
    rows = index.reshape(shape).expand(source.shape)
    if reduce == "mean":
        return _mean(self, dim, rows, source, reduce, include_self=include_self)
    return self.scatter_reduce(dim, rows, source, reduce, include_self=include_self)
