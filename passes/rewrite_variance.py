"""A variance written as a difference of squares subtracts the mean first.

    mean(x ** 2, d) - mean(x, d) ** 2            →  mean((x - mean(x, d, keepdim=True)) ** 2, d)
    sum(x ** 2, d) / n - (sum(x, d) / n) ** 2    →  the same, where n = x.shape[d]

- x * x and square(x) are squares too; the means run over the same dimensions and both keep them, or neither does.
- Left alone: means that differ in their dimensions, that are taken in another dtype, or of integers.

The results are equal where the original is exact. It loses the digits that the mean has before the deviation, and can
be negative: in float32 nothing is left of a deviation of 1 at a mean of 5000.

Source: T. F. Chan, G. H. Golub, R. J. LeVeque, Algorithms for Computing the Sample Variance, The American Statistician
37(3), 1983 (the two-pass algorithm).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import base_op, is_same, number, operands, producer, reduced_dims
from graphaudit.rewrite.pattern_pass import Found, PatternPass


class RewriteVariance(PatternPass):
    """mean(x²) - mean(x)² → the mean of squared deviations."""

    name = "rewrite_variance"
    fixes = ("variance-cancellation",)
    target_ops = frozenset({"aten.sub"})
    ends = ("aten.sub",)
    runs_after = ("remove_inference_noops",)
    claims = Claim.WHERE_FINITE

    def find(self, view: GraphView, node: Node) -> Found | None:
        """mean(x²) - mean(x)²."""
        parts = operands(node)
        if len(parts) != 2 or not all(isinstance(p, Value) for p in parts) or node.attributes.get("alpha", 1) != 1:
            return None
        left = _mean(view, parts[0])
        right = _mean(view, _squared(view, parts[1]))
        inside = _squared(view, left.input) if left is not None else None
        if left is None or right is None or inside is None or not is_same(view, inside, right.input):
            return None
        reason = "" if inside.dtype == node.outputs[0].dtype else "the means are taken in another dtype"
        if (left.dims, left.keepdim) != (right.dims, right.keepdim):
            reason = "the means run over different dimensions"
        return Found(inside, partial(_variance, left.dims, left.keepdim), reason)


@dataclass(frozen=True)
class _Mean:
    """The mean of `input` over `dims`."""

    input: Value
    dims: tuple[int, ...]
    keepdim: bool


def _variance(dims: tuple[int, ...], keepdim: bool, x: Tensor) -> Tensor:
    deviation = x - x.mean(dims, keepdim=True)
    return (deviation * deviation).mean(dims, keepdim=keepdim)


def _mean(view: GraphView, value: Value | float | None) -> _Mean | None:
    """A mean, or a sum over the number of its elements."""
    node = producer(view, value) if isinstance(value, Value) else None
    if node is None:
        return None
    if base_op(node) == "aten.mean":
        return _reduction(node)
    parts = operands(node)
    if base_op(node) not in ("aten.div", "aten.mul") or len(parts) != 2 or not isinstance(parts[0], Value):
        return None
    total = producer(view, parts[0])
    scale = number(view, parts[1])
    mean = _reduction(total) if total is not None and base_op(total) == "aten.sum" else None
    if mean is None or scale is None or not all(isinstance((mean.input.shape or ())[d], int) for d in mean.dims):
        return None
    count = 1
    for d in mean.dims:
        count *= int((mean.input.shape or ())[d])
    divisor = scale if base_op(node) == "aten.div" else 1 / scale if scale else 0.0
    return mean if abs(divisor - count) <= 1e-6 * count else None


def _reduction(node: Node) -> _Mean | None:
    dims = reduced_dims(node)
    if node.inputs[0] is None or not dims:
        return None
    return _Mean(node.inputs[0], tuple(sorted(dims)), bool(node.attributes.get("keepdim", False)))


def _squared(view: GraphView, value: Value | float | None) -> Value | None:
    """x, if `value` is x * x or x ** 2."""
    node = producer(view, value) if isinstance(value, Value) else None
    if node is None:
        return None
    if base_op(node) in ("aten.pow", "aten.square"):
        return node.inputs[0] if node.attributes.get("exponent", 2) == 2 else None
    same = base_op(node) == "aten.mul" and len(operands(node)) == 2 == len(node.inputs)
    return node.inputs[0] if same and is_same(view, node.inputs[0], node.inputs[1]) else None
