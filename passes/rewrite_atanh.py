"""The inverse of tanh stays finite at -1 and 1.

    atanh(tanh(x))                  →  x
    atanh(clamp(tanh(x), a, b))     →  clamp(x, atanh(a), atanh(b))           -1 < a < b < 1
    atanh(y)                        →  where(|y| >= 1, sign(y) * c, atanh(y))
    0.5 * (log1p(y) - log1p(-y))    →  the same as of atanh(y)
    0.5 * log((1 + y) / (1 - y))    →  the same as of atanh(y)

- c is atanh of the largest number below 1: 8.66 in float32, 4.16 in float16, 18.7 in float64.
- A clamp to bounds that round to 1 does not keep y inside: 1 - 1e-8 in float32, and 1 - 1e-6 too where the target
  computes in float16.
- Left alone: an atanh behind which the policy asks whether it is finite. No candidate: a y that the graph keeps inside.

The results are equal where the original is finite. The original is infinite at y = ±1, which tanh gives from an
argument of 9.02 on in float32, and NaN beyond, where rounding puts an action that was clipped and scaled; the result
there is the largest that float32 has inside, as with the clamp of Stable-Baselines3's TanhBijector. Where tanh is at
hand, nothing is lost in the first place. The comparison with 1 holds in float16 too, where a bound of 1 - 6e-8 is 1.

Source: https://github.com/DLR-RM/stable-baselines3, common/distributions.py, TanhBijector.inverse.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.one import under_two_atanh
from graphaudit.graphs.program import Program
from graphaudit.graphs.ranges import Ranges
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import base_op, number, operands, producer
from graphaudit.rewrite.base import PassResult
from graphaudit.rewrite.pattern_pass import Found, PatternPass
from graphaudit.rewrite.repair import why_left
from graphaudit.rulebook.target import Target

_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


class RewriteAtanh(PatternPass):
    """atanh → its argument where that is a tanh, else finite at -1 and 1."""

    name = "rewrite_atanh"
    fixes = ("atanh-at-bound", "log-of-zero", "divide-by-zero")
    target_ops = frozenset({"aten.atanh", "aten.log1p", "aten.log"})
    ends = ("aten.atanh", "aten.mul", "aten.div")
    runs_after = ("remove_inference_noops",)
    claims = Claim.WHERE_FINITE

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Replace every such expression, as far as the dtype that the target computes in needs it."""
        self._computes = target.compute_dtype
        return super().run(artifact, target)

    def find(self, view: GraphView, node: Node) -> Found | None:
        """atanh(y), in any of its spellings."""
        y = node.inputs[0] if base_op(node) == "aten.atanh" else _written_out(view, node)
        dtype = node.outputs[0].dtype or ""
        if y is None or dtype not in _DIGITS or y.dtype != dtype or y.shape != node.outputs[0].shape:
            return None
        reason = why_left(view, node)
        original = _under_tanh(view, y)
        if original is not None:
            return Found(*original, reason)
        low, high = Ranges(view).of(y)
        narrow = min(_DIGITS[dtype], _DIGITS.get(self._computes, 53)) if dtype == "float32" else _DIGITS[dtype]
        if max(high, -low) < 1 - 2.0 ** -(narrow + 1):
            return None
        if base_op(node) == "aten.atanh" and _is_guarded(view, node):
            return None
        return Found(y, partial(_bounded, math.atanh(1 - 2.0 ** -_DIGITS[dtype])), reason)


def _bounded(bound: float, y: Tensor) -> Tensor:
    return torch.where(y.abs() >= 1, y.sign() * bound, y.atanh())


def _is_guarded(view: GraphView, node: Node) -> bool:
    """Whether all that reads an atanh is a choice by |y| >= 1."""
    readers = view.consumers(node.outputs[0])
    tests = [view.producer(r.inputs[0]) for r in readers if base_op(r) == "aten.where"]
    sizes = [view.producer(t.inputs[0]) for t in tests if t is not None and base_op(t) == "aten.ge"]
    same = [s for s in sizes if s is not None and base_op(s) == "aten.abs" and s.inputs[0] == node.inputs[0]]
    return bool(readers) and len(same) == len(readers)


def _under_tanh(view: GraphView, y: Value) -> tuple[Value, partial[Tensor]] | None:
    """x, and atanh(y) as a function of x, if y is tanh(x) or that between bounds inside (-1, 1)."""
    node, low, high = producer(view, y), -math.inf, math.inf
    if base_op(node) in ("aten.clamp", "aten.clamp_min", "aten.clamp_max") and node is not None:
        low, high = (node.attributes.get(k, b) for k, b in (("min", -math.inf), ("max", math.inf)))
        if not all(
            isinstance(b, int | float | None) and (b is None or abs(b) < 1 or math.isinf(b)) for b in (low, high)
        ):
            return None
        node = producer(view, node.inputs[0]) if len(node.inputs) == 1 else None
    if base_op(node) != "aten.tanh" or node is None or node.inputs[0] is None:
        return None
    bounds = [math.atanh(b) if b is not None and math.isfinite(b) else None for b in (low, high)]
    return node.inputs[0], partial(_between, *bounds)


def _between(low: float | None, high: float | None, x: Tensor) -> Tensor:
    return x.clamp(low, high) if low is not None or high is not None else x.clone()


def _written_out(view: GraphView, node: Node) -> Value | None:
    """y if `node` is half of log1p(y) - log1p(-y), or of its other spellings."""
    parts = operands(node)
    if len(parts) != 2:
        return None
    pairs = [parts] if base_op(node) == "aten.div" else [parts, parts[::-1]]
    half = 2.0 if base_op(node) == "aten.div" else 0.5
    inner = next((producer(view, a) for a, b in pairs if isinstance(a, Value) and number(view, b) == half), None)
    return under_two_atanh(view, inner)
