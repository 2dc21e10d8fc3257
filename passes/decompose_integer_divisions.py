"""Rounded quotients of integers are computed in integers.

    div(x, y, "floor")  →  floor_divide(x, y)
    div(x, y, "trunc")  →  q + ((q * y != x) and x / y < 0)    q = floor_divide(x, y)

- For integers. torch translates these by way of float32, which holds integers up to 2**24 only; floor_divide stays in
  integers.
- Left alone: quotients of floats, and of an integer and a float.

The results are exact, but for division by zero, on which torch raises.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument
from graphaudit.rulebook.target import Target


class DecomposeIntegerDivisions(OperatorPass):
    """div of integers with a rounding mode → floor_divide."""

    name = "decompose_integer_divisions"
    fixes = ("int-floor-div",)
    target_ops = frozenset({"aten.div.Tensor_mode", "aten.div.Scalar_mode"})
    claims = Claim.EQUIVALENT

    def takes(self, node: fx.Node) -> bool:
        """Calls on integers that give integers."""
        return super().takes(node) and not node.meta["val"].is_floating_point()

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """The same in integers."""
        return _floor if argument(node, "rounding_mode") == "floor" else _trunc


def _floor(x: Tensor, y: Any, *, rounding_mode: str) -> Tensor:  # noqa: ARG001
    return torch.floor_divide(x, y)


def _trunc(x: Tensor, y: Any, *, rounding_mode: str) -> Tensor:  # noqa: ARG001
    floored = torch.floor_divide(x, y)
    differs = (x < 0) != (y < 0)
    return floored + torch.logical_and(floored * y != x, differs).to(floored.dtype)
