"""log(1 + x) is written so that small x keep their digits.

    log1p(x)    →  x * (log(u) / (u - 1))    u = 1 + x, for x < 1;  x where u is 1;  log(u) from x = 1 on
    log(1 + x)  →  the same
    log(1 - x)  →  the same of -x

- What is added may have other readers; those keep it.
- Left alone: a sum whose 1 broadens the shape, and inputs that are no floats.

ONNX has no log1p, and torch's exporter writes it as log(1 + x), which is off by up to half the spacing of numbers at 1
whatever x is: 6e-8 in float32, all digits of an x of 1e-8, and 4.9e-4 in float16. This form is off by at most 2 units
in the last place in PyTorch and 3 in ONNX Runtime, from x = -1 to the largest number (measured in its test). The poles
at -1 and at infinity and NaN are log1p's own.

Source: D. Goldberg, What Every Computer Scientist Should Know About Floating-Point Arithmetic, ACM Computing Surveys
23(1), 1991, theorem 4.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import base_op, number, operands, producer
from graphaudit.rewrite.pattern_pass import Found, PatternPass


class DecomposeLog1p(PatternPass):
    """log1p(x), log(1 + x) and log(1 - x) → a quotient that keeps the digits of x."""

    name = "decompose_log1p"
    target_ops = frozenset({"aten.log1p", "aten.log"})
    ends = ("aten.log1p", "aten.log")
    runs_after = (
        *("remove_inference_noops", "rewrite_softmax", "rewrite_softplus", "rewrite_log_sigmoid", "rewrite_atanh"),
        *("rewrite_squash_correction", "rewrite_log_products", "rewrite_entropy", "decompose_special_functions"),
        *("decompose_cumulative", "hoist_noise", "rewrite_float16_epsilons"),
    )
    claims = Claim.EQUIVALENT

    def find(self, view: GraphView, node: Node) -> Found | None:
        """log1p(x), log(1 + x) or log(1 - x)."""
        if base_op(node) == "aten.log1p":
            x = node.inputs[0]
            return Found(x, _log1p, _reason(node, x)) if x is not None else None
        inner = producer(view, node.inputs[0])
        if inner is None or base_op(inner) not in ("aten.add", "aten.sub", "aten.rsub") or len(operands(inner)) != 2:
            return None
        first, second = operands(inner) if base_op(inner) != "aten.rsub" else operands(inner)[::-1]
        if base_op(inner) == "aten.add" and number(view, second) == 1.0:
            first, second = second, first
        if number(view, first) != 1.0 or not isinstance(second, Value) or inner.attributes.get("alpha", 1) != 1:
            return None
        if number(view, second) is not None:
            return None
        return Found(second, _log1p if base_op(inner) == "aten.add" else _of_complement, _reason(node, second))


def _reason(node: Node, x: Value) -> str:
    if x.dtype != node.outputs[0].dtype:
        return f"the input is {x.dtype}"
    return "adding the 1 changes the shape" if x.shape != node.outputs[0].shape else ""


def _log1p(x: Tensor) -> Tensor:
    sum_ = x - -1.0  # 1 + x in a form that is no candidate itself
    log = sum_.log()
    near = torch.where(sum_ == 1, x, x * (log / (sum_ - 1)))
    return torch.where(x < 1, near, log)


def _of_complement(x: Tensor) -> Tensor:
    return _log1p(-x)
