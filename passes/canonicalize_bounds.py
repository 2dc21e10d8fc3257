"""Bounds that are the same number for every element are numbers.

    clamp(x, low, high)   low, high tensors of one number each   →   clamp(x, -1.0, 1.0)

- Both bounds are constants, or computed from constants, of the dtype of x; they do not broadcast x to another shape.
- Left alone where bounds differ by element or are NaN, and where there is only one: ONNX Runtime's Clip takes the
  largest finite number for the other, and loses infinity.

ONNX's Clip takes numbers only: exporters write bounds that are tensors as Max and Min. Action spaces bound every action
alike as a rule. The results are the same to the last bit.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import PassResult
from graphaudit.rewrite.constants import Constants
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument, shape
from graphaudit.rulebook.target import Target


class CanonicalizeBounds(OperatorPass):
    """Bounds of one number, as tensors → numbers."""

    name = "canonicalize_bounds"
    target_ops = frozenset({"aten.clamp.Tensor"})
    runs_after = ("remove_inference_noops",)
    runs_before = ("insert_nan_guards",)
    claims = Claim.EQUIVALENT

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Every call in the main graph, whatever the target."""
        self._constants = Constants(artifact)
        return super().run(artifact, target)

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """clamp with numbers."""
        x, result = node.args[0], node.meta["val"]
        if not isinstance(x, fx.Node) or [str(s) for s in shape(x)] != [str(s) for s in shape(node)]:
            return "its bounds broadcast it to another shape"
        bounds = []
        for side in ("min", "max"):
            value = self._constants.value(argument(node, side))
            if value is None or not value.numel() or bool((value != value.max()).any()):
                return "its bounds are not two constants of one number each"
            if not value.dtype == result.dtype == x.meta["val"].dtype:
                return "its bounds have another dtype"
            bounds.append(value.flatten()[0].item())
        return partial(_clamp, *bounds)


def _clamp(low: float, high: float, x: Tensor, *_given: Any, **_named: Any) -> Tensor:
    return x.clamp(low, high)
