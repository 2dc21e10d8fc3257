"""Arithmetic and order on bool become logic, or are taken on integers.

    a + b                          →  a | b
    maximum(a, b), minimum(a, b)   →  a | b, a & b
    amax(a, d), amin(a, d)         →  any(a, d), all(a, d)          max(a) and min(a) likewise
    a > b, a >= b, a < b, a <= b   →  a & ~b, a | ~b, ~a & b, ~a | b
    sort(a), topk(a), argsort(a)   →  the same of int32, and bool again

- Only where both operands are bool tensors. ONNX takes none of these on bool.
- Left alone: a sum scaled by `alpha`.

The results are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.fx_view import operator_name
from graphaudit.graphs.program import Program
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument
from graphaudit.rulebook.target import Target


class ConvertBoolArithmetic(OperatorPass):
    """Arithmetic on bool → logic."""

    name = "convert_bool_arithmetic"
    fixes = ("bool-arithmetic", "export-failed")
    target_ops = frozenset(
        {"aten.add", "aten.maximum", "aten.minimum", "aten.amax", "aten.amin", "aten.max", "aten.min"}
        | {"aten.gt", "aten.ge", "aten.lt", "aten.le", "aten.sort", "aten.topk", "aten.argsort"}
    )
    claims = Claim.EQUIVALENT

    def calls(self, program: Program) -> Iterator[fx.Node]:
        """Calls whose tensors are all bool."""
        for node in super().calls(program):
            if operator_name(node.target)[0] not in _LOGIC.keys() | _ORDERINGS:
                continue
            values = [n.meta.get("val") for n in node.all_input_nodes]
            if values and all(isinstance(v, Tensor) and v.dtype is torch.bool for v in values):
                yield node

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """The logic that the call stands for."""
        name = operator_name(node.target)[0]
        if name in _ORDERINGS:
            return partial(_ordered, node.target)
        if name == "aten.add.Tensor" and argument(node, "alpha") != 1:
            return "the second mask is scaled before it is added"
        return _LOGIC[name]


def _over(function: Callable[..., Tensor], x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    for d in sorted((d % x.dim() for d in (dim or range(x.dim()))), reverse=True):
        x = function(x, d, keepdim)
    return x


def _ordered(call: Function, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    found = call(x.to(torch.int32), *args, **kwargs)
    return found if isinstance(found, Tensor) else (found[0].to(torch.bool), found[1])


_ORDERINGS = frozenset(
    {"aten.sort.default", "aten.sort.stable", "aten.topk.default", "aten.argsort.default", "aten.argsort.stable"}
)
_LOGIC: dict[str, Callable[..., Any]] = {
    "aten.add.Tensor": torch.logical_or,
    "aten.maximum.default": torch.logical_or,
    "aten.minimum.default": torch.logical_and,
    "aten.amax.default": partial(_over, torch.any),
    "aten.amin.default": partial(_over, torch.all),
    "aten.max.default": partial(_over, torch.any),
    "aten.min.default": partial(_over, torch.all),
    "aten.gt.Tensor": lambda a, b: a & ~b,
    "aten.ge.Tensor": lambda a, b: a | ~b,
    "aten.lt.Tensor": lambda a, b: ~a & b,
    "aten.le.Tensor": lambda a, b: ~a | b,
}
