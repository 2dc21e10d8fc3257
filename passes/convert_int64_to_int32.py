"""Arithmetic on int64 that takes a node off the accelerator becomes arithmetic on int32, where no value can overflow.

    cumsum(x, d)  →  cumsum(x as int32, d) as int64
    pow(x, n)     →  pow(x as int32, n) as int64

- Driven by the target's rulebook: the node is rewritten where the rulebook names another engine for the ONNX operator
  in int64 than for the same in int32 (ATC runs CumSum and Pow in int64 on the AI CPU).
- The range of every value is proven: from the dtype (bool, uint8, int8), from what makes it (a comparison, clamp,
  one_hot, arange, argmax and their arithmetic), and for cumsum from the size of the dimension, which is known. An input
  of the policy in int64 can be anything.
- Left alone: values whose range is not known, or reaches beyond int32. Results stay int64, and so does the interface.

Integers are exact.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.program import Program
from graphaudit.graphs.ranges import Ranges
from graphaudit.graphs.view import Node, Value
from graphaudit.rewrite.base import PassResult
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument
from graphaudit.rulebook import load_rulebook
from graphaudit.rulebook.target import Target

_ONNX = {"cumsum": "CumSum", "pow": "Pow"}
_LIMIT = torch.iinfo(torch.int32)


class ConvertInt64ToInt32(OperatorPass):
    """cumsum and pow on int64 → on int32, where the target has no unit for int64."""

    name = "convert_int64_to_int32"
    fixes = ("int64", "limited-op", "cumsum")
    target_ops = frozenset({"aten.cumsum", "aten.pow.Tensor_Scalar"})
    runs_after = ("convert_bool_arithmetic", "decompose_cumulative", "remove_inference_noops")
    claims = Claim.EQUIVALENT

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Narrow what leaves the accelerator and has a proven range."""
        if not any(_is_moved(operator, target) for operator in _ONNX.values()):
            return PassResult(artifact)
        view = view_program(artifact)
        self._ranges = Ranges(view)
        self._values = {v.name: v for n in view.nodes for v in n.outputs} | {v.name: v for v in view.inputs}
        return super().run(artifact, target)

    def takes(self, node: fx.Node) -> bool:
        """Calls on tensors that give int64."""
        return super().takes(node) and node.meta["val"].dtype is torch.int64

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """The same on int32, cast back."""
        name = node.target._schema.name.removeprefix("aten::")  # type: ignore[union-attr]
        source: fx.Node = argument(node, "self")
        if not _is_moved(_ONNX[name], target):
            return f"{target.name} takes {_ONNX[name]} in int64"
        known = [self._ranges.of(self._values[n.name]) for n in (source, node) if n.name in self._values]
        if len(known) < 2 or not all(_LIMIT.min <= k.low and k.high <= _LIMIT.max for k in known):
            return "no bound within int32 is known for its values"
        return _cumsum if name == "cumsum" else _pow


def _is_moved(operator: str, target: Target) -> bool:
    """Whether another engine runs the ONNX operator in int64 than in int32."""
    if target.graph != "onnx":
        return False
    wide, narrow = (_engine(operator, dtype, target) for dtype in ("int64", "int32"))
    return wide is not None and wide != narrow


def _engine(operator: str, dtype: str, target: Target) -> str | None:
    inputs = (Value("x", dtype, (1, 1)), Value("y", dtype, ()))
    node = Node("asked", operator, "", inputs, (Value("z", dtype, (1, 1)),), {}, None, target.opset)
    return load_rulebook(target.name).answer(node).engine


def _cumsum(x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:  # noqa: ARG001
    return x.to(torch.int32).cumsum(dim, dtype=torch.int32).to(torch.int64)


def _pow(x: Tensor, exponent: int) -> Tensor:
    return x.to(torch.int32).pow(exponent).to(torch.int64)
