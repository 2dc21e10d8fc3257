"""Arithmetic, order and selection on bool become logic, or are taken on integers.

    a + b                          →  a | b
    maximum(a, b), minimum(a, b)   →  a | b, a & b
    amax(a, d), amin(a, d)         →  any(a, d), all(a, d)          max(a) and min(a) likewise
    a > b, a >= b, a < b, a <= b   →  a & ~b, a | ~b, ~a & b, ~a | b
    where(c, a, b)                 →  c & a | ~c & b                masked_fill(b, c, a) likewise
    sort(a), topk(a), argsort(a)   →  the same of int32, and bool again

- Only where all operands are bool, tensors or Python's. ONNX takes none of these on bool, apart from Where, for which
  ONNX Runtime has no such kernel.
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
from graphaudit.graphs.selection import where
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument
from graphaudit.rulebook.target import Target


class ConvertBoolArithmetic(OperatorPass):
    """Arithmetic on bool → logic."""

    name = "convert_bool_arithmetic"
    fixes = ("bool-arithmetic", "export-failed")
    target_ops = frozenset(
        {"aten.add", "aten.maximum", "aten.minimum", "aten.amax", "aten.amin", "aten.max", "aten.min"}
        | {"aten.gt", "aten.ge", "aten.lt", "aten.le", "aten.sort", "aten.topk", "aten.argsort"}
        | {"aten.where", "aten.masked_fill"}
    )
    claims = Claim.EQUIVALENT

    def calls(self, program: Program) -> Iterator[fx.Node]:
        """Calls whose tensors are all bool."""
        for node in super().calls(program):
            name = operator_name(node.target)[0]
            if name not in _LOGIC.keys() | _ORDERINGS:
                continue
            values = [n.meta.get("val") for n in node.all_input_nodes]
            if name.startswith(("aten.where", "aten.masked_fill")):
                values.append(node.meta["val"])  # a Python number among the operands may make it another dtype
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


def _select(condition: Tensor, taken: Any, other: Any) -> Tensor:
    return where(condition, _mask(taken, condition), _mask(other, condition))


def _mask(value: Any, like: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.full((), bool(value), dtype=torch.bool, device=like.device)


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
    "aten.where.self": _select,
    "aten.where.Scalar": _select,
    "aten.where.ScalarSelf": _select,
    "aten.where.ScalarOther": _select,
    "aten.masked_fill.Tensor": lambda x, mask, value: _select(mask, value, x),
    "aten.masked_fill.Scalar": lambda x, mask, value: _select(mask, value, x),
}
