"""Shifts by a known number of bits become products and quotients.

    x << n  →  x * 2**n
    x >> n  →  floor(x / 2**n), as integers

- For targets that do not take ONNX's BitShift for the dtype; it runs when it is named, or when a node is refused.
- Left alone: shifts by tensors, and by as many bits as the dtype has or more.

Integers are exact, and wrap alike.
"""

from __future__ import annotations

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.operator_pass import Function, OperatorPass
from graphaudit.rulebook.target import Target


class DecomposeShifts(OperatorPass):
    """Shifts by constants → products and quotients."""

    name = "decompose_shifts"
    fixes = ("bitwise", "unsupported-op")
    target_ops = frozenset(
        {"aten.__lshift__.Scalar", "aten.__rshift__.Scalar"}
        | {"aten.bitwise_left_shift.Tensor_Scalar", "aten.bitwise_right_shift.Tensor_Scalar"}
    )
    claims = Claim.EQUIVALENT
    default = False

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """A product or a quotient."""
        bits, dtype = node.args[1], node.meta["val"].dtype
        if dtype.is_floating_point:
            return f"it shifts {str(dtype).removeprefix('torch.')}"
        if not isinstance(bits, int) or not 0 <= bits < torch.iinfo(dtype).bits - 1:
            return f"it shifts by {bits} bits"
        return _left if "lshift" in str(node.target) or "left" in str(node.target) else _right


def _left(x: Tensor, bits: int) -> Tensor:
    return x * 2**bits


def _right(x: Tensor, bits: int) -> Tensor:
    return torch.floor_divide(x, 2**bits)
