"""Distances between all pairs of rows are written as differences.

    cdist(x, y, 2)    →  sqrt(sum((x[…, :, None, :] - y[…, None, :, :]) ** 2, -1))
    cdist(x, y, 1)    →  sum(|d|, -1)            d: the same differences
    cdist(x, y, inf)  →  amax(|d|, -1)
    cdist(x, y, 0)    →  sum(d != 0, -1)
    cdist(x, y, p)    →  sum(|d| ** p, -1) ** (1 / p)

- For any number of batch dimensions, which are broadcast. The differences take rows · rows · columns numbers.
- Left alone: rows without columns.

The results differ from torch's by rounding. From 25 rows up torch computes p = 2 as x² + y² - 2xy unless told
otherwise, which loses the digits of short distances; the differences keep them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.operator_pass import Function, OperatorPass, shape
from graphaudit.rulebook.target import Target


class DecomposeDistances(OperatorPass):
    """cdist → differences and a sum."""

    name = "decompose_distances"
    fixes = ("cdist", "unsupported-op")
    target_ops = frozenset({"aten.cdist", "aten._cdist_forward"})
    claims = Claim.EQUIVALENT

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """The sum for the norm that is asked for."""
        source = node.args[0]
        assert isinstance(source, fx.Node)
        return "there are no columns" if shape(source)[-1] == 0 else _distances


def _distances(x1: Tensor, x2: Tensor, p: float = 2.0, _compute_mode: int | None = None) -> Tensor:
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if p == 0:
        return (difference != 0).to(x1.dtype).sum(-1)
    if p == 2:
        return (difference * difference).sum(-1).sqrt()
    size = difference.abs()
    if p == 1:
        return size.sum(-1)
    return size.amax(-1) if p == math.inf else torch.pow(torch.pow(size, p).sum(-1), 1 / p)
