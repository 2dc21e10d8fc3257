"""masked_scatter becomes a gather whose positions are counted, so that no shape depends on data.

    masked_scatter(x, mask, values)  →  where(mask, values.flatten()[cumsum(mask.flatten()) - 1], x)

- The mask is broadcast to x first; positions are kept inside values.
- Left alone: values without elements.

The result is exact where there are enough values. Where there are too few, torch raises, and the last is repeated.
"""

from __future__ import annotations

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.graphs.selection import where
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument
from graphaudit.rulebook.target import Target


class DecomposeMaskedScatter(OperatorPass):
    """masked_scatter → cumulative sum, gather and where."""

    name = "decompose_masked_scatter"
    fixes = ("masked-scatter", "dynamic-shape-op")
    target_ops = frozenset({"aten.masked_scatter"})
    claims = Claim.EQUIVALENT

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """Count positions, where there is something to gather from."""
        if argument(node, "source").meta["val"].numel() == 0:
            return "there are no values"
        return _masked_scatter


def _masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    wide, chosen = torch.broadcast_tensors(x, mask)
    position = (chosen.reshape(-1).cumsum(0) - 1).clamp(0, source.numel() - 1)
    return where(chosen, source.reshape(-1)[position].reshape(chosen.shape), wide)
