"""The log-probability correction of a tanh-squashed action is written so that it stays finite.

    log(1 - tanh(x) ** 2)    →  2 * (log(2) - |x| - softplus(-2 * |x|))
    log(1 - y * y)           →  the same, where y = tanh(x)
    log1p(-tanh(x) ** 2)     →  the same
    log((1 - y) * (1 + y))   →  the same
    log(1 - tanh(x) ** 2 + c)  →  log(s + c), s = 4 * exp(-2 * |x|) / (1 + exp(-2 * |x|)) ** 2

- tanh, and its square, may have other readers; those keep it.
- A number c that is added, such as 1e-6, stays: it bounds the result below, and training saw it. What is repaired is
  the difference under it, of which float32 keeps no digit where c matters.
- Left alone: a scaled sum.

The results are equal where the original is exact. In float32, 1 - tanh(x) ** 2 loses its digits as |x| grows and is 0
from |x| > 9.01 on, where its log is -inf; the result is the one that exact arithmetic gives: 2 * (log(2) - |x|).

Source: T. Haarnoja et al., Soft Actor-Critic Algorithms and Applications, 2018, appendix C (the correction);
log(1 - tanh(x)**2) = log(4 / (exp(x) + exp(-x))**2), with exp(|x|) taken out.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.one import beside_one
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import base_op, is_same, number, operands, producer
from graphaudit.rewrite.pattern_pass import Found, PatternPass


class RewriteSquashCorrection(PatternPass):
    """log(1 - tanh(x) ** 2) → a form that neither cancels nor reaches log(0)."""

    name = "rewrite_squash_correction"
    fixes = ("log-of-zero",)
    target_ops = frozenset({"aten.log", "aten.log1p"})
    ends = ("aten.log", "aten.log1p")
    runs_after = ("remove_inference_noops",)
    claims = Claim.WHERE_FINITE

    def find(self, view: GraphView, node: Node) -> Found | None:
        """log(1 - tanh(x)²), or the same with a constant added before the log."""
        inner = producer(view, node.inputs[0])
        if inner is None:
            return None
        if base_op(node) == "aten.log1p":
            squashed = _squashed(view, inner.inputs[0]) if base_op(inner) == "aten.neg" else None
            return Found(squashed, _correction) if squashed is not None else None
        squashed = _one_minus_square(view, inner)
        if squashed is not None:
            return Found(squashed, _correction)
        for part, rest in (operands(inner), operands(inner)[::-1]) if base_op(inner) == "aten.add" else ():
            squashed = _one_minus_square(view, producer(view, part)) if isinstance(part, Value) else None
            epsilon = number(view, rest)
            if squashed is not None and epsilon is not None:
                scaled = inner.attributes.get("alpha", 1) != 1
                function = partial(_bounded_correction, epsilon) if epsilon else _correction
                return Found(squashed, function, "what is added before the log is scaled" if scaled else "")
        return None


def _correction(x: Tensor) -> Tensor:
    size = x.abs()
    return 2 * (math.log(2) - size - torch.nn.functional.softplus(-2 * size))


def _bounded_correction(epsilon: float, x: Tensor) -> Tensor:
    decay = (-2 * x.abs()).exp()
    return (4 * decay / (1 + decay) ** 2 + epsilon).log()


def _one_minus_square(view: GraphView, node: Node | None) -> Value | None:
    """x if `node` is 1 - tanh(x)², or (1 - tanh(x)) * (1 + tanh(x))."""
    if base_op(node) == "aten.mul" and node is not None and len(operands(node)) == 2:
        left, right = (beside_one(view, p) for p in operands(node))
        if left is None or right is None or left[1] == right[1] or not is_same(view, left[0], right[0]):
            return None
        tanh = producer(view, left[0])
        return tanh.inputs[0] if tanh is not None and base_op(tanh) == "aten.tanh" else None
    if node is None or base_op(node) not in ("aten.sub", "aten.rsub") or node.attributes.get("alpha", 1) != 1:
        return None
    first, second = operands(node) if len(operands(node)) == 2 else (None, None)
    if base_op(node) == "aten.rsub":
        first, second = second, first
    if number(view, first) != 1.0 or not isinstance(second, Value) or second.shape != node.outputs[0].shape:
        return None
    return _squashed(view, second)


def _squashed(view: GraphView, value: Value | None) -> Value | None:
    """x if `value` is tanh(x)²."""
    node = producer(view, value)
    if base_op(node) == "aten.square":
        base = node.inputs[0] if node is not None else None
    elif base_op(node) in ("aten.pow", "aten.mul") and node is not None and len(operands(node)) == 2:
        base, other = operands(node)  # type: ignore[assignment]
        squares = isinstance(other, Value) and isinstance(base, Value) and is_same(view, base, other)
        if not isinstance(base, Value) or not (squares if base_op(node) == "aten.mul" else number(view, other) == 2.0):
            return None
    else:
        return None
    tanh = producer(view, base)
    return tanh.inputs[0] if tanh is not None and base_op(tanh) == "aten.tanh" else None
