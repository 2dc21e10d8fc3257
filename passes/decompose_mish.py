"""Mish in exponentials, which runtimes compute in vectors; its softplus and tanh one number after the other.

    mish(x), x * tanh(softplus(x))   →   x * n / (n + 2)      n = e * (e + 2), e = exp(min(x, 20))

- At 20, tanh(softplus(x)) has long been 1, and n is still finite.
- A softplus with another beta, or a threshold under 10, stays. One that something else reads is computed for that.
- Left alone: expressions in branches and loops, and halves, which PyTorch computes in float32 and rounds once.

tanh(log(1 + e^x)) = ((1 + e^x)² - 1) / ((1 + e^x)² + 1) = n / (n + 2), without cancellation, since n > 0. Nearer to the
float64 result than softplus and tanh in float32 are. On ONNX Runtime 1.32 (CPU, 65,536 numbers, batch 64 of a diffusion
policy) 64 µs instead of 609; PyTorch takes 232.
"""

from __future__ import annotations

from torch import Tensor

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import base_op, is_same, operands, producer
from graphaudit.rewrite.pattern_pass import Found, PatternPass

_LIMIT = 20.0
_LEAST_THRESHOLD = 10.0  # above it tanh(x) and tanh(softplus(x)) are both 1


class DecomposeMish(PatternPass):
    """mish(x) → products and one exponential."""

    name = "decompose_mish"
    target_ops = frozenset({"aten.mish", "aten.softplus"})
    ends = ("aten.mish", "aten.mul")
    runs_after = ("remove_inference_noops", "rewrite_softplus")
    claims = Claim.EQUIVALENT

    def find(self, view: GraphView, node: Node) -> Found | None:
        """A mish, in one operator or in three."""
        if base_op(node) == "aten.mish":
            return _found(node.inputs[0]) if node.inputs[0] is not None else None
        parts = operands(node)
        for x, rest in (parts, parts[::-1]) if len(parts) == 2 else ():
            if isinstance(x, Value) and isinstance(rest, Value) and _is_tanh_softplus(view, rest, x):
                return _found(x)
        return None


def _found(x: Value) -> Found:
    wide = x.dtype in ("float32", "float64")
    return Found(x, _mish, "" if wide else f"each of its steps would round to {x.dtype}")


def _is_tanh_softplus(view: GraphView, value: Value, x: Value) -> bool:
    tanh = producer(view, value)
    softplus = producer(view, tanh.inputs[0]) if tanh is not None and base_op(tanh) == "aten.tanh" else None
    if softplus is None or base_op(softplus) != "aten.softplus":
        return False
    beta, threshold = softplus.attributes.get("beta", 1), softplus.attributes.get("threshold", 20)
    return beta == 1 and float(threshold) >= _LEAST_THRESHOLD and is_same(view, softplus.inputs[0], x)


def _mish(x: Tensor) -> Tensor:
    growth = x.clamp(max=_LIMIT).exp()
    odds = growth * (growth + 2)
    return x * (odds / (odds + 2))
