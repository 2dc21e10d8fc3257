"""Bags of equal size of an embedding become rows that are gathered and reduced.

    embedding_bag(w, i, offsets = 0, n, 2 n, …)  →  sum, mean or max over j of w[i.reshape(bags, n)[:, j]]

- torch translates it to a loop over the bags; for targets without loops. It runs when it is named, or when a node is
  refused.
- Left alone: bags of unequal size (offsets that are given), a padding index, sparse gradients, other results that are
  read.

The results differ by rounding.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument, results_read
from graphaudit.rulebook.target import Target

_SUM, _MEAN = 0, 1  # torch.nn.functional.embedding_bag; 2 is max


class DecomposeEmbeddingBags(OperatorPass):
    """embedding_bag over bags of equal size → a gather and a reduction."""

    name = "decompose_embedding_bags"
    fixes = ("unsupported-op",)
    target_ops = frozenset({"aten.embedding_bag", "aten._embedding_bag", "aten._embedding_bag_forward_only"})
    claims = Claim.EQUIVALENT
    default = False

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """The reduction, where every bag has the same size."""
        size = _step(argument(node, "offsets"))
        if size is None:
            return "the bags differ in size"
        if argument(node, "include_last_offset"):
            return "the offsets include the last one"
        if argument(node, "padding_idx") not in (None, -1):
            return "it has a padding index"
        if results_read(node) - {0}:
            return "its other results are read"
        return partial(_reduce, size)


def _step(offsets: fx.Node) -> int | None:
    """n, of offsets that are arange(0, …, n)."""
    if offsets.target is not torch.ops.aten.arange.start_step or offsets.args[0] != 0 or len(offsets.args) < 3:
        return None
    return offsets.args[2] if isinstance(offsets.args[2], int) else None


def _reduce(
    size: int,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,  # noqa: ARG001
    scale_grad_by_freq: bool = False,  # noqa: ARG001
    mode: int = _SUM,
    sparse: bool = False,  # noqa: ARG001
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,  # noqa: ARG001
    padding_idx: int | None = None,  # noqa: ARG001
) -> tuple[Tensor, None, None, None]:
    rows = torch.embedding(weight, indices.reshape(-1, size))
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, size, 1)
    reduced = rows.sum(1) if mode == _SUM else rows.mean(1) if mode == _MEAN else rows.amax(1)
    return reduced, None, None, None
