"""Functions of a long product are taken of the sum of logarithms where the product underflows or overflows.

    log(prod(p, d))      →  sum(log(p), d)                                              p in [0, 1]
    log(cumprod(p, d))   →  cumsum(log(p), d)                                           p in [0, 1]
    log(p * q * r)       →  log(p) + log(q) + log(r)                                    all in [0, 1]
    f(y), y = prod(x, d) →  where(y is normal, f(y), g(sum(log(x), d)))                 x >= 0
                            f, g: log and s; sqrt and exp(s / 2); pow(y, k) and exp(k * s), 0 < k < 1

- log2 and log10 too; the product may run over one dimension or all, may have other readers, and may be reshaped.
- y is normal where it is above the smallest normal number of its dtype and below infinity.
- Left alone: products of factors that can be negative, because theirs are no logarithms then.
- No candidates: products with a mask, which only select.

Of factors up to 1 the logarithms all have one sign, so their sum loses no digits. Other factors can cancel, and so the
product itself is used wherever it is good: the results are then the same, to the last bit. Where float32 gives 0 or
infinity for a product of a hundred probabilities of 1 %, and -inf for its logarithm, the result is the exact -460.5.
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
from graphaudit.graphs.walk import RESHAPES, base_op, is_copy, producer
from graphaudit.rewrite.base import INSIDE_REGION, Level, Pass, PassResult
from graphaudit.rewrite.edit import insert_function, replace_node
from graphaudit.rulebook.target import Target

_LOGS = {"aten.log": torch.log, "aten.log2": torch.log2, "aten.log10": torch.log10}
_BASES = {"aten.log": 1.0, "aten.log2": math.log(2), "aten.log10": math.log(10)}


@dataclass(frozen=True)
class _Found:
    """`node` is a function of a product; `function` computes it of `inputs`; `product` is where the finding is."""

    node: Node
    product: Node
    inputs: tuple[Value, ...]
    function: Callable[..., Tensor]
    reason: str = ""


class RewriteLogProducts(Pass[Program]):
    """log, roots and powers of a product → of the sum of logarithms, where the product is 0 or infinite."""

    name = "rewrite_log_products"
    level = Level.FX
    fixes = ("prod-underflow", "log-of-zero")
    target_ops = frozenset({"aten.log", "aten.log2", "aten.log10", "aten.prod"})
    runs_after = ("remove_inference_noops",)
    runs_before = ("rewrite_softmax", "rewrite_log_sigmoid", "decompose_cumulative")  # they know log(softmax(x))
    claims = Claim.WHERE_FINITE

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Rewrite every such function of a product in the main graph."""
        del target
        result = PassResult(artifact)
        view = view_program(artifact)
        nodes = {n.name: n for n in artifact.graph.nodes}
        for found in _find(view):
            reason = INSIDE_REGION if found.node.graph else found.reason
            if not reason:
                _replace(found, nodes)
            result.record(found.product.name, found.product.place, reason)
        if result.changed:
            artifact.finish()
        return result


def _replace(found: _Found, nodes: dict[str, fx.Node]) -> None:
    old = nodes[found.node.name]
    new = insert_function(old, found.function, tuple(nodes[v.name] for v in found.inputs))
    replace_node(old, new)
    nodes[found.node.name] = new


def _find(view: GraphView) -> Iterator[_Found]:
    ranges = Ranges(view)
    for node in view.select(*_LOGS, "aten.sqrt", "aten.pow"):
        source = node.inputs[0]
        product = producer(view, source)
        if product is None or source is None or source.dtype != node.outputs[0].dtype:
            continue
        found = None
        if base_op(product) in ("aten.prod", "aten.cumprod"):
            found = _of_reduction(view, ranges, node, product)
        elif base_op(product) == "aten.mul" and base_op(node) in _LOGS:
            factors = list(_factors(view, source))
            probable = all(_is_probability(ranges, f) for f in factors)
            if len(factors) > 1 and probable and not any(_is_mask(view, f) for f in factors):
                found = _Found(node, product, tuple(factors), partial(_sum_of_logs, _LOGS[base_op(node)]))
        if found is not None:
            yield found


def _of_reduction(view: GraphView, ranges: Ranges, node: Node, product: Node) -> _Found | None:
    factors = product.inputs[0]
    if factors is None or factors.dtype != product.outputs[0].dtype or _is_mask(view, factors):
        return None
    dim, keepdim = product.attributes.get("dim"), bool(product.attributes.get("keepdim", False))
    if ranges.of(factors).low < 0:
        return _Found(node, product, (), _reduced, "the factors can be negative")
    if base_op(node) in _LOGS and _is_probability(ranges, factors):
        cumulative = base_op(product) == "aten.cumprod"
        return _Found(
            node, product, (factors,), partial(_reduced, _LOGS[base_op(node)], dim, None if cumulative else keepdim)
        )
    if base_op(product) == "aten.cumprod" or _is_chosen(view, node):
        return None
    exponent = 0.5 if base_op(node) == "aten.sqrt" else node.attributes.get("exponent")
    if base_op(node) in _LOGS:
        own, through = _LOGS[base_op(node)], partial(_divided, _BASES[base_op(node)])
    elif isinstance(exponent, int | float) and 0 < exponent < 1:
        own, through = partial(_power, exponent), partial(_exponential, exponent)
    else:
        return None
    assert node.inputs[0] is not None
    return _Found(node, product, (node.inputs[0], factors), partial(_guarded, own, through, dim, keepdim))


def _reduced(log: Callable[[Tensor], Tensor], dim: Any, keepdim: bool | None, x: Tensor) -> Tensor:
    """The sum of the logarithms; cumulative where `keepdim` is None."""
    if keepdim is None:
        return log(x).cumsum(dim)
    return log(x).sum(dim, keepdim) if dim is not None else log(x).sum()


def _guarded(own: Any, through: Any, dim: Any, keepdim: bool, product: Tensor, factors: Tensor) -> Tensor:
    info = torch.finfo(product.dtype)
    normal = (product > info.tiny) & (product <= info.max)
    return torch.where(normal | product.isnan(), own(product), through(_reduced(torch.log, dim, keepdim, factors)))


def _sum_of_logs(log: Callable[[Tensor], Tensor], *factors: Tensor) -> Tensor:
    total = log(factors[0])
    for factor in factors[1:]:
        total = total + log(factor)
    return total


def _divided(base: float, total: Tensor) -> Tensor:
    return total / base if base != 1.0 else total


def _power(exponent: float, product: Tensor) -> Tensor:
    return product.sqrt() if exponent == 0.5 else product**exponent


def _exponential(exponent: float, total: Tensor) -> Tensor:
    return (exponent * total).exp()


def _factors(view: GraphView, value: Value) -> Iterator[Value]:
    node = producer(view, value)
    if base_op(node) == "aten.mul" and node is not None and len(node.inputs) == 2:
        for part in node.inputs:
            if part is not None:
                yield from _factors(view, part)
    else:
        yield value


def _is_probability(ranges: Ranges, value: Value) -> bool:
    low, high = ranges.of(value)
    return low >= 0 and high <= 1 and (value.dtype or "").startswith("float")


def _is_mask(view: GraphView, value: Value) -> bool:
    """Whether a value is a boolean or an integer that was cast."""
    node = view.producer(value)
    while node is not None and (is_copy(node) or base_op(node) in RESHAPES | {"aten.expand", "aten._to_copy"}):
        source = node.inputs[0]
        if source is None or not (source.dtype or "").startswith("float"):
            return True
        node = view.producer(source)
    return base_op(node) == "aten.one_hot"


def _is_chosen(view: GraphView, node: Node) -> bool:
    """Whether the result is already one of the two that a where chooses between."""
    readers = view.consumers(node.outputs[0])
    tests = [producer(view, r.inputs[0]) for r in readers if base_op(r) == "aten.where"]
    return bool(readers) and len(tests) == len(readers) and all(base_op(t) == "aten.bitwise_or" for t in tests)
