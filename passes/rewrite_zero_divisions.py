"""A vector divided by its own norm, where that is zero, becomes zero.

    x / norm(x, d)                    →  x / where(n == 0, 1, n)                        n = norm(x, d)
    sum(x * m, d) / sum(m, d)         →  the same with the sum of m, where m is never negative
    sum(x * y) / (norm(x) * norm(y))  →  the same with the product of the norms
    x * reciprocal(n), x * rsqrt(n)   →  the same within the reciprocal

- n is any size that is 0 only where the numerator is 0 too: a norm, sqrt(sum(x ** 2)), sum(|x|), max(|x|), |x|, the
  standard deviation under x - mean(x), the sum of weights or of a mask that the numerator is weighted with, and
  products of those. It may be reshaped, as long as it lines up with the dimensions that it was taken over.
- The numerator may be multiplied by anything.
- Left alone: divisions behind which the policy asks whether the result is NaN, because it has an answer of its own.
- No candidates: denominators that can be 0 where the numerator is not. There the original is infinite, and rightly so.

The results are the same, to the last bit, wherever the original is finite. Where it is 0 / 0 = NaN the result is 0: the
convention of torch.nn.functional.normalize and cosine_similarity, whose denominators are bounded from below, and of a
masked mean over nothing, whose count is clamped to 1.
"""

from __future__ import annotations

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.program import Program
from graphaudit.graphs.zero_divisions import ZeroDivision, find_zero_divisions
from graphaudit.rewrite.base import Level, Pass, PassResult
from graphaudit.rewrite.edit import insert_call, insert_function
from graphaudit.rewrite.repair import why_left
from graphaudit.rulebook.target import Target


class RewriteZeroDivisions(Pass[Program]):
    """0 / 0 of a vector and its own norm → 0."""

    name = "rewrite_zero_divisions"
    level = Level.FX
    fixes = ("divide-by-zero",)
    target_ops = frozenset({"aten.div", "aten.reciprocal", "aten.rsqrt"})
    runs_after = ("remove_inference_noops", "rewrite_softmax", "rewrite_variance")
    claims = Claim.WHERE_FINITE

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Guard every such division of the main graph."""
        del target
        result = PassResult(artifact)
        view = view_program(artifact)
        nodes = {n.name: n for n in artifact.graph.nodes}
        for found in find_zero_divisions(view):
            reason = why_left(view, found.node)
            if not reason:
                _guard(found, nodes)
            result.record(found.node.name, found.node.place, reason)
        if result.changed:
            artifact.finish()
        return result


def _guard(found: ZeroDivision, nodes: dict[str, fx.Node]) -> None:
    division, old = nodes[found.node.name], nodes[found.denominator.name]
    safe = insert_function(division, _without_zero, (old,))
    if found.inverse is None:
        division.replace_input_with(old, safe) if old is not division.args[0] else _replace_second(division, safe)
        return
    inverse = nodes[found.inverse.name]
    steps = _between(division, inverse)
    new = insert_call(division, inverse.target, (safe, *inverse.args[1:]), inverse.kwargs)  # type: ignore[arg-type]
    for step in steps:
        new = insert_call(division, step.target, (new, *step.args[1:]), step.kwargs)  # type: ignore[arg-type]
    division.replace_input_with(steps[-1] if steps else inverse, new)


def _between(division: fx.Node, inverse: fx.Node) -> list[fx.Node]:
    """The reshapes and copies between a reciprocal and the product that reads it, in order."""
    for operand in division.all_input_nodes:
        steps: list[fx.Node] = []
        node = operand
        while node is not inverse and node.op == "call_function" and node.args and isinstance(node.args[0], fx.Node):
            steps.insert(0, node)
            node = node.args[0]
        if node is inverse:
            return steps
    return []


def _replace_second(division: fx.Node, safe: fx.Node) -> None:
    division.update_arg(1, safe)


def _without_zero(size: Tensor) -> Tensor:
    return torch.where(size == 0, 1.0, size)
