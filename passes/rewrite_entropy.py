"""A probability of zero adds nothing to an entropy or to a divergence.

    p * log(p)                           →  p * where(p == 0, 0, log(p))
    p * (log(p) - log(q))                →  p * where(p == 0, 0, log(p) - log(q))
    p * log(p / q)                       →  the same
    exp(l) * l                           →  exp(l) * where(exp(l) == 0, 0, l)
    softmax(x) * log_softmax(x)          →  the same, where -inf gets into x under a mask

- log2 and log10 too; p may be negated, and be 1 - x with log1p(-x) as its logarithm.
- The logarithm may have other readers; those keep it.
- Left alone: a product behind which the policy asks whether the result is NaN.
- No candidates: p that the graph keeps above 0, and log(p + 1e-8), which is finite.

The results are the same, to the last bit, wherever the original is finite. At p = 0 it is 0 * -inf = NaN, and the
result is 0, the limit of p log(p): the convention of information theory, and of torch.special.entr and torch.xlogy.

Source: T. M. Cover and J. A. Thomas, Elements of Information Theory, 2nd ed. 2006, section 2.1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.masks import is_masked, varying
from graphaudit.graphs.program import Program
from graphaudit.graphs.ranges import Ranges
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import base_op, is_same, number, operands, producer, reduced_dims
from graphaudit.rewrite.base import Level, Pass, PassResult
from graphaudit.rewrite.edit import insert_function
from graphaudit.rewrite.repair import why_left
from graphaudit.rulebook.target import Target

_LOGS = ("aten.log", "aten.log2", "aten.log10")
_SOFTMAX = {"aten.log_softmax": "aten.softmax", "aten._log_softmax": "aten._softmax"}


class RewriteEntropy(Pass[Program]):
    """0 * log(0) → 0."""

    name = "rewrite_entropy"
    level = Level.FX
    fixes = ("log-of-zero",)
    target_ops = frozenset({"aten.log", "aten.log2", "aten.log10", "aten.log1p", "aten.exp", "aten.log_softmax"})
    runs_after = ("remove_inference_noops", "rewrite_softmax", "rewrite_log_sigmoid")
    claims = Claim.WHERE_FINITE

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Let the logarithm be 0 where the probability is, in every such product of the main graph."""
        del target
        result = PassResult(artifact)
        view = view_program(artifact)
        finder = _Finder(view)
        nodes = {n.name: n for n in artifact.graph.nodes}
        for node in view.select("aten.mul"):
            found = finder.find(node)
            if found is None:
                continue
            weight, logarithm = found
            reason = why_left(view, node)
            if not reason:
                product, old = nodes[node.name], nodes[logarithm.name]
                new = insert_function(product, _limit, (nodes[weight.name], old))
                product.replace_input_with(old, new)
            shown = _shown(view, node, logarithm)
            result.record(shown.name, shown.place, reason)
        if result.changed:
            artifact.finish()
        return result


def _limit(weight: Tensor, logarithm: Tensor) -> Tensor:
    return torch.where(weight == 0, 0.0, logarithm)


def _shown(view: GraphView, node: Node, logarithm: Value) -> Node:
    """The logarithm itself, where its line is not that of the product and nothing else reads it."""
    log = producer(view, logarithm)
    alone = log is not None and len(view.consumers(log.outputs[0])) == 1
    return log if alone and log is not None else node


class _Finder:
    def __init__(self, view: GraphView) -> None:
        self._view, self._ranges, self._varies = view, Ranges(view), varying(view)

    def find(self, node: Node) -> tuple[Value, Value] | None:
        """The probability and the logarithm whose product `node` is, if both vanish together."""
        parts = operands(node)
        if len(parts) != 2 or not all(isinstance(p, Value) for p in parts):
            return None
        for weight, logarithm in (parts, parts[::-1]):
            assert isinstance(weight, Value) and isinstance(logarithm, Value)
            bare = self._without_sign(weight)
            if bare.dtype == logarithm.dtype and self._is_log_of(logarithm, bare):
                return bare, logarithm
        return None

    def _is_log_of(self, value: Value, p: Value) -> bool:
        """Whether `value` can be infinite where `p` is 0, because it holds the logarithm of p."""
        node = producer(self._view, value)
        op = base_op(node)
        if node is None or not node.inputs or node.inputs[0] is None:
            return False
        if op in _LOGS:
            quotient = producer(self._view, node.inputs[0])
            over = quotient.inputs[0] if base_op(quotient) == "aten.div" and quotient is not None else None
            return self._ranges.of(p).low <= 0 and any(is_same(self._view, v, p) for v in (node.inputs[0], over))
        if op == "aten.log1p":
            return self._is_complement(node.inputs[0], p)
        if op in ("aten.sub", "aten.neg"):
            return any(self._is_log_of(v, p) for v in node.inputs if v is not None)
        if op in _SOFTMAX and self._is_softmax_of(node, p):
            return is_masked(self._view, node.inputs[0], self._varies)
        power = producer(self._view, p)
        exponential = base_op(power) == "aten.exp" and power is not None and is_same(self._view, power.inputs[0], value)
        return exponential and self._is_infinite(value)

    def _is_infinite(self, value: Value) -> bool:
        """Whether -inf shows in how `value` is computed: a mask, or the logarithm of what can be 0."""
        node = producer(self._view, value)
        if is_masked(self._view, value, self._varies):
            return True
        if base_op(node) in _LOGS and node is not None:
            return self._ranges.first(node).low <= 0
        steps = ("aten.log_softmax", "aten._log_softmax", "aten.sub", "aten.add", "aten.where")
        inputs = node.inputs if base_op(node) in steps and node is not None else ()
        return any(self._is_infinite(v) for v in inputs if v is not None)

    def _is_softmax_of(self, node: Node, p: Value) -> bool:
        """Whether p is the softmax, or the exponential, of what `node` is the log-softmax of."""
        other = producer(self._view, p)
        if other is None:
            return False
        if base_op(other) == "aten.exp":
            return is_same(self._view, other.inputs[0], node.outputs[0])
        alike = base_op(other) == _SOFTMAX[base_op(node)] and reduced_dims(other) == reduced_dims(node)
        return alike and is_same(self._view, other.inputs[0], node.inputs[0])

    def _is_complement(self, value: Value, p: Value) -> bool:
        """Whether `value` is -x and p is 1 - x."""
        negated, rest = producer(self._view, value), producer(self._view, p)
        if base_op(negated) != "aten.neg" or negated is None or rest is None or len(operands(rest)) != 2:
            return False
        one, x = operands(rest) if base_op(rest) == "aten.sub" else operands(rest)[::-1]
        known = base_op(rest) in ("aten.sub", "aten.rsub") and number(self._view, one) == 1.0
        return known and isinstance(x, Value) and is_same(self._view, negated.inputs[0], x)

    def _without_sign(self, value: Value) -> Value:
        node = producer(self._view, value)
        return node.inputs[0] if base_op(node) == "aten.neg" and node is not None and node.inputs[0] else value
