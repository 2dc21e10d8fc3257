"""Where the target computes in float16, an epsilon that vanishes there is put in where it is needed: at zero.

    log(s + e)          →  where(s == 0, log(e), log(s + e))
    sqrt(s + e)         →  where(s == 0, sqrt(e), sqrt(s + e))              rsqrt, 1 / (s + e) and powers likewise
    x / (s + e)         →  x / where(s == 0, 1, s + e)                      x is 0 where s is
    f(clamp(s, min=e))  →  the same, for each of these

- s is never negative, as far as the graph tells, and 0 < e < 6e-8, the smallest number of float16.
- x is 0 where s is: see rewrite_zero_divisions. (x - mean(x)) / (std(x) + e) is one such quotient.
- A constant beyond float16, such as rsqrt of 1e-12, becomes 65504.
- Left alone: epsilons of which something else reads the sum, or under an x that need not be 0.
- No candidates on targets that compute in float32; there it does not run.

In float16 s + 1e-8 is s, so where s is 0 the logarithm is -inf and the quotient NaN. In float32 the results are the
same to the last bit, but for a constant that has been bounded.

Source: IEEE 754-2019, table 3.2: the smallest subnormal binary16 is 2**-24.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.program import Program
from graphaudit.graphs.ranges import Ranges
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import COPIES, base_op, number, operands
from graphaudit.graphs.zero_divisions import is_zero_with
from graphaudit.rewrite.base import INSIDE_REGION, Level, Pass, PassResult
from graphaudit.rewrite.edit import insert_function, replace_node
from graphaudit.rulebook.target import Target

_FLOAT16 = torch.finfo(torch.float16)
_SMALLEST, _LARGEST = _FLOAT16.smallest_normal * _FLOAT16.eps, _FLOAT16.max  # the smallest is subnormal
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "aten.log": math.log,
    "aten.log2": math.log2,
    "aten.log10": math.log10,
    "aten.sqrt": math.sqrt,
    "aten.rsqrt": lambda e: e**-0.5,
    "aten.reciprocal": lambda e: 1 / e,
}


@dataclass(frozen=True)
class _Guard:
    """`node` is s + e or clamp(s, min=e); `reader` is what reads it, perhaps expanded."""

    node: Node
    size: Value
    epsilon: float
    reader: Node


class RewriteFloat16Epsilons(Pass[Program]):
    """Epsilons that vanish in float16 → a choice by s == 0, on targets that compute in it."""

    name = "rewrite_float16_epsilons"
    level = Level.FX
    fixes = ("fp16-underflow",)
    target_ops = frozenset({"aten.add", "aten.clamp", "aten.clamp_min"})
    runs_after = ("remove_inference_noops", "rewrite_softmax", "rewrite_zero_divisions", "rewrite_squash_correction")
    claims = Claim.EQUIVALENT

    @classmethod
    def suits(cls, target: Target) -> bool:
        """Only targets that compute float32 graphs in float16."""
        return target.compute_dtype == "float16"

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Put in every such epsilon of the main graph."""
        result = PassResult(artifact)
        if not self.suits(target):
            return result
        view = view_program(artifact)
        ranges = Ranges(view)
        nodes = {n.name: n for n in artifact.graph.nodes}
        for guard in _find(view, ranges):
            reason = INSIDE_REGION if guard.node.graph else _put_in(view, ranges, guard, nodes)
            result.record(guard.node.name, guard.node.place, reason)
        if result.changed:
            artifact.finish()
        return result


def _find(view: GraphView, ranges: Ranges) -> Iterator[_Guard]:
    """Every vanishing epsilon with everything that reads its sum, but for what is a choice by s == 0 already."""
    for node in view.select("aten.add", "aten.clamp", "aten.clamp_min"):
        size, epsilon = _size(view, node)
        if size is None or size.is_constant or node.outputs[0].dtype != "float32" or not 0 < epsilon < _SMALLEST:
            continue
        if ranges.of(size).low < 0 or size.shape != node.outputs[0].shape:
            continue
        for reader in _readers(view, node.outputs[0]):
            if base_op(reader) != "aten.where" and not _is_chosen(view, reader):
                yield _Guard(node, size, epsilon, reader)


def _size(view: GraphView, node: Node) -> tuple[Value | None, float]:
    """s and e of s + e or clamp(s, min=e)."""
    if base_op(node) != "aten.add":
        least, most = node.attributes.get("min"), node.attributes.get("max")
        known = isinstance(least, int | float) and most is None and len(node.inputs) == 1
        return (node.inputs[0], float(least)) if known else (None, 0.0)  # type: ignore[arg-type]
    for size, epsilon in (operands(node), operands(node)[::-1]) if len(operands(node)) == 2 else ():
        value = number(view, epsilon)
        if isinstance(size, Value) and value is not None and node.attributes.get("alpha", 1) == 1:
            return size, value
    return None, 0.0


def _readers(view: GraphView, value: Value) -> Iterator[Node]:
    for node in view.consumers(value):
        if base_op(node) in COPIES | {"aten.expand"}:
            yield from _readers(view, node.outputs[0])
        else:
            yield node


def _is_chosen(view: GraphView, reader: Node) -> bool:
    """Whether a where by s == 0 reads the result, and nothing else."""
    after = view.consumers(reader.outputs[0])
    tests = [view.producer(r.inputs[0]) for r in after if base_op(r) == "aten.where"]
    return bool(after) and len(tests) == len(after) and all(base_op(t) == "aten.eq" for t in tests)


def _put_in(view: GraphView, ranges: Ranges, guard: _Guard, nodes: dict[str, fx.Node]) -> str:
    """Rewrite what reads the sum, or say why that is left alone."""
    op, reader, size = base_op(guard.reader), nodes[guard.reader.name], nodes[guard.size.name]
    if op == "aten.div":
        above, below = (*operands(guard.reader), None)[:2]
        if not isinstance(above, Value) or not isinstance(below, Value) or reader.args[0] is reader.args[1]:
            return "it divides a number"
        if above.name == guard.node.outputs[0].name:
            return "it is divided itself"
        if not is_zero_with(view, ranges, above, guard.size, below):
            return "the numerator need not be 0 where the denominator is"
        old = nodes[below.name]
        reader.update_arg(1, insert_function(reader, _without_zero, (size, old)))
        return ""
    value = _at_epsilon(guard)
    if value is None:
        return f"{op.rpartition('.')[2]} reads it"
    new = insert_function(reader, partial(_choice, reader.target, value), (size, *reader.args), reader.kwargs)
    replace_node(reader, new)
    nodes[guard.reader.name] = new
    return ""


def _at_epsilon(guard: _Guard) -> float | None:
    """What the reader gives at s = 0, within float16."""
    op, exponent = base_op(guard.reader), guard.reader.attributes.get("exponent")
    if op == "aten.pow" and isinstance(exponent, int | float) and abs(exponent) <= 1:
        value = guard.epsilon**exponent
    elif op in _FUNCTIONS:
        value = _FUNCTIONS[op](guard.epsilon)
    else:
        return None
    return min(value, _LARGEST)


def _choice(call: Callable[..., Tensor], value: float, size: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return torch.where(size == 0, value, call(*args, **kwargs))


def _without_zero(size: Tensor, below: Tensor) -> Tensor:
    return torch.where(size == 0, 1.0, below)
