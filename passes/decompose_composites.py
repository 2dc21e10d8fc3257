"""Functions that torch would compute with the sizes of the example when it translates them are written out before.

    take_along_dim(x, i, d)  →  gather(x, d, i), both broadcast in the other dimensions
    kron(x, y)               →  (x[:, None, :, None] * y[None, :, None, :]), reshaped

- torch.export keeps each as one operator, and torch's exporter decomposes it in C++, where shapes are plain numbers:
  a batch that varies would become that of the example.

The results are exact.
"""

from __future__ import annotations

from torch import fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.open_sizes import COMPOSITES
from graphaudit.graphs.program import Program
from graphaudit.rewrite.operator_pass import Function, OperatorPass
from graphaudit.rulebook.target import Target


class DecomposeComposites(OperatorPass):
    """take_along_dim and kron → gather, and a product that is reshaped."""

    name = "decompose_composites"
    target_ops = frozenset({"aten.take_along_dim", "aten.kron"})
    claims = Claim.EQUIVALENT

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """What it computes, whatever the sizes."""
        return COMPOSITES[node.target]
