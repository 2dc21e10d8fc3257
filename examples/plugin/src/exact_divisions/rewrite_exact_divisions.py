"""Divisions by a power of two become multiplications, which are cheaper and give the same bits.

    div(x, 0.25)   →  mul(x, 4.0)

- The divisor is a number in the graph, a power of two, and its inverse is at most `largest`.
- Left alone: divisions that round (`rounding_mode`), and divisors whose inverse is not exact.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from msgspec import Meta
from torch import fx

from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import PassOptions
from graphaudit.rewrite.operator_pass import Function, OperatorPass
from graphaudit.rulebook.target import Target


class Options(PassOptions, frozen=True):
    """`largest`: the largest factor to multiply by."""

    largest: Annotated[float, Meta(gt=0)] = 2.0**64


class RewriteExactDivisions(OperatorPass):
    """div(x, 2**n) → mul(x, 2**-n)."""

    name = "rewrite_exact_divisions"
    target_ops = frozenset({"aten.div"})
    Options = Options

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """The multiplication, where it is exact."""
        divisor = node.args[1]
        if node.target is not torch.ops.aten.div.Tensor or not isinstance(divisor, int | float):
            return "the divisor is no number"
        if not node.args[0].meta["val"].is_floating_point() or math.frexp(abs(divisor))[0] != 0.5:
            return f"multiplying by the inverse of {divisor} would round"
        if abs(1 / divisor) > self.options.largest:
            return f"the inverse of {divisor} is larger than {self.options.largest}"
        return lambda x, by: x * (1 / by)
