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

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.program import Program
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import base_op, number, operands, producer
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rewrite.edit import insert_function, replace_node
from graphaudit.rulebook.target import Target


class RewriteLogSigmoid(Pass[Program]):
    """log(sigmoid(x)), log(1 - sigmoid(x)) and log_sigmoid(x) → softplus."""

    name = "rewrite_log_sigmoid"
    level = Level.FX
    fixes = ("log-of-zero",)
    target_ops = frozenset({"aten.log", "aten.log1p", "aten.log_sigmoid"})
    runs_after = ("remove_inference_noops",)
    claims = Claim.WHERE_FINITE

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Replace every such log of the main graph."""
        result = PassResult(artifact)
        view = view_program(artifact)
        nodes = {n.name: n for n in artifact.graph.nodes}
        for node, found in _logs(view):
            reason = found.reason or ("it stands inside a branch or a loop" if node.graph else "")
            if not reason:
                old = nodes[node.name]
                function = _of_complement if found.complement else _log_sigmoid
                new = insert_function(old, function, (nodes[found.input.name],))
                replace_node(old, new)
                nodes[node.name] = new
            (result.left if reason else result.rewritten).append(Site(node.name, node.place, reason))
        if result.changed:
            artifact.finish()
        return result


@dataclass(frozen=True)
class _Found:
    """log(sigmoid(input)), or log(1 - sigmoid(input)) for the `complement`; or what keeps it from being that."""

    input: Value
    complement: bool = False
    reason: str = ""


def _log_sigmoid(x: Tensor) -> Tensor:
    return -_softplus(-x)


def _of_complement(x: Tensor) -> Tensor:
    return -_softplus(x)


def _softplus(x: Tensor) -> Tensor:
    return torch.nn.functional.softplus(x, 1.0, 37.0 if x.dtype is torch.float64 else 20.0)


def _logs(view: GraphView) -> Iterator[tuple[Node, _Found]]:
    for node in view.select("aten.log", "aten.log1p", "aten.log_sigmoid"):
        found = _find(view, node)
        if found is not None:
            yield node, found


def _find(view: GraphView, node: Node) -> _Found | None:
    if base_op(node) == "aten.log_sigmoid":
        return _Found(node.inputs[0]) if node.inputs[0] is not None else None
    inner = producer(view, node.inputs[0])
    if base_op(node) == "aten.log1p":
        x = _under_sigmoid(view, inner.inputs[0]) if inner is not None and base_op(inner) == "aten.neg" else None
        return _Found(x, complement=True) if x is not None else None
    x, complement = _part(view, node.inputs[0])
    if x is not None:
        return _Found(x, complement)
    if inner is not None and base_op(inner) == "aten.add" and len(operands(inner)) == 2:
        for part, rest in (operands(inner), operands(inner)[::-1]):
            x, complement = _part(view, part)
            epsilon = number(view, rest)
            if x is not None and epsilon is not None:
                return _Found(x, complement, f"{epsilon:g} is added before the log")
    return None


def _part(view: GraphView, value: Value | float | None) -> tuple[Value | None, bool]:
    """x, and whether `value` is 1 - sigmoid(x) rather than sigmoid(x); None if it is neither."""
    if not isinstance(value, Value):
        return None, False
    node = producer(view, value)
    x = _under_sigmoid(view, value)
    if x is not None or node is None or base_op(node) not in ("aten.sub", "aten.rsub"):
        return x, False
    parts = operands(node)
    if len(parts) != 2 or node.attributes.get("alpha", 1) != 1:
        return None, False
    one, sigmoid = parts if base_op(node) == "aten.sub" else parts[::-1]
    if number(view, one) != 1.0 or not isinstance(sigmoid, Value) or sigmoid.shape != value.shape:
        return None, False
    return _under_sigmoid(view, sigmoid), True


def _under_sigmoid(view: GraphView, value: Value | None) -> Value | None:
    node = producer(view, value)
    return node.inputs[0] if node is not None and base_op(node) == "aten.sigmoid" else None
