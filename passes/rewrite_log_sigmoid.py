"""The log of a sigmoid becomes a softplus, which neither underflows nor cancels.

    log(sigmoid(x))      →  -softplus(-x)
    log(1 - sigmoid(x))  →  -softplus(x)
    log_sigmoid(x)       →  -softplus(-x)

- sigmoid may have other readers; those keep it.
- Left alone: a sigmoid with something added before the log, such as 1e-8. That bounds the result, and training saw it.
- softplus returns x itself above its threshold: 20, and 37 for float64, where the two differ by less than rounding.

The results are equal where the original is finite. log(sigmoid(x)) is -inf in float32 from x < -103.97 on, and where a
runtime's sigmoid gives up earlier (ONNX Runtime: x < -18); log(1 - sigmoid(x)) loses its digits as x grows and is -inf
from x > 16.64 on. torch's exporter writes log_sigmoid as log(sigmoid(x)).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import base_op, number, operands, producer
from graphaudit.rewrite.pattern_pass import Found, PatternPass


class RewriteLogSigmoid(PatternPass):
    """log(sigmoid(x)), log(1 - sigmoid(x)) and log_sigmoid(x) → softplus."""

    name = "rewrite_log_sigmoid"
    fixes = ("log-of-zero",)
    target_ops = frozenset({"aten.log", "aten.log1p", "aten.log_sigmoid"})
    ends = ("aten.log", "aten.log1p", "aten.log_sigmoid")
    runs_after = ("remove_inference_noops",)
    claims = Claim.WHERE_FINITE

    def find(self, view: GraphView, node: Node) -> Found | None:
        """log(sigmoid(x)) or log(1 - sigmoid(x))."""
        if base_op(node) == "aten.log_sigmoid":
            return Found(node.inputs[0], _log_sigmoid) if node.inputs[0] is not None else None
        inner = producer(view, node.inputs[0])
        if base_op(node) == "aten.log1p":
            x = _under_sigmoid(view, inner.inputs[0]) if inner is not None and base_op(inner) == "aten.neg" else None
            return Found(x, _of_complement) if x is not None else None
        x, function = _part(view, node.inputs[0])
        if x is not None:
            return Found(x, function)
        if inner is not None and base_op(inner) == "aten.add" and len(operands(inner)) == 2:
            for part, rest in (operands(inner), operands(inner)[::-1]):
                x, function = _part(view, part)
                epsilon = number(view, rest)
                if x is not None and epsilon is not None:
                    return Found(x, function, f"{epsilon:g} is added before the log")
        return None


def _log_sigmoid(x: Tensor) -> Tensor:
    return -_softplus(-x)


def _of_complement(x: Tensor) -> Tensor:
    return -_softplus(x)


def _softplus(x: Tensor) -> Tensor:
    return torch.nn.functional.softplus(x, 1.0, 37.0 if x.dtype is torch.float64 else 20.0)


def _part(view: GraphView, value: Value | float | None) -> tuple[Value | None, Callable[[Tensor], Tensor]]:
    """x, and the log of `value`, if that is sigmoid(x) or 1 - sigmoid(x); None if it is neither."""
    if not isinstance(value, Value):
        return None, _log_sigmoid
    node = producer(view, value)
    x = _under_sigmoid(view, value)
    if x is not None or node is None or base_op(node) not in ("aten.sub", "aten.rsub"):
        return x, _log_sigmoid
    parts = operands(node)
    if len(parts) != 2 or node.attributes.get("alpha", 1) != 1:
        return None, _log_sigmoid
    one, sigmoid = parts if base_op(node) == "aten.sub" else parts[::-1]
    if number(view, one) != 1.0 or not isinstance(sigmoid, Value) or sigmoid.shape != value.shape:
        return None, _log_sigmoid
    return _under_sigmoid(view, sigmoid), _of_complement


def _under_sigmoid(view: GraphView, value: Value | None) -> Value | None:
    node = producer(view, value)
    return node.inputs[0] if node is not None and base_op(node) == "aten.sigmoid" else None
