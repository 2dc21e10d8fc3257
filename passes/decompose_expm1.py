"""exp(x) - 1 is written so that small x keep their digits.

    expm1(x)    →  2 * exp(x / 2) * sinh(x / 2)
    exp(x) - 1  →  the same

- Below x = -40, where the result is -1, x is taken as -40, so that sinh does not overflow.
- exp may have other readers; those keep it.
- Left alone: exp(x) - 1 whose 1 broadens the shape, and other dtypes than float32 and float64.

ONNX has no expm1, and torch's exporter writes it as exp(x) - 1, which in float32 is off by up to 6e-8 whatever x is.
The result differs from expm1 by rounding.

Source: the definition of sinh, NIST Digital Library of Mathematical Functions, 4.28.1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import base_op, number, operands, producer
from graphaudit.rewrite.pattern_pass import Found, PatternPass


class DecomposeExpm1(PatternPass):
    """expm1(x) and exp(x) - 1 → a product with sinh."""

    name = "decompose_expm1"
    target_ops = frozenset({"aten.expm1", "aten.exp"})
    ends = ("aten.expm1", "aten.sub", "aten.add")
    runs_after = ("remove_inference_noops", "rewrite_softmax", "rewrite_softplus")
    claims = Claim.EQUIVALENT

    def find(self, view: GraphView, node: Node) -> Found | None:
        """expm1(x), exp(x) - 1 or exp(x) + (-1)."""
        x = _exponent(view, node)
        return Found(x, _expm1, _reason(node, x)) if x is not None else None


def _expm1(x: Tensor) -> Tensor:
    half = torch.where(x < -40, -40.0, x) * 0.5  # below, the result is -1 and sinh overflows
    return 2 * half.exp() * half.sinh()


def _exponent(view: GraphView, node: Node) -> Value | None:
    """x if `node` is expm1(x), exp(x) - 1 or exp(x) + (-1)."""
    if base_op(node) == "aten.expm1":
        return node.inputs[0]
    parts = operands(node)
    if len(parts) != 2 or node.attributes.get("alpha", 1) != 1 or not isinstance(parts[0], Value):
        return None
    exponential = producer(view, parts[0])
    one = 1.0 if base_op(node) == "aten.sub" else -1.0
    if exponential is None or base_op(exponential) != "aten.exp" or number(view, parts[1]) != one:
        return None
    return exponential.inputs[0]


def _reason(node: Node, x: Value) -> str:
    if x.dtype not in ("float32", "float64") or x.dtype != node.outputs[0].dtype:
        return f"the input is {x.dtype}"
    return "subtracting the 1 changes the shape" if x.shape != node.outputs[0].shape else ""
