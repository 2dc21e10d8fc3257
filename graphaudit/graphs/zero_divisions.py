"""Divisions whose denominator is 0 only where the numerator is 0 too: a vector by its norm, a masked sum by its count.

There 0 / 0 is the one thing that can go wrong, and no other result depends on what is put in its place. The check that
reports them and the pass that repairs them share this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphaudit.graphs.ranges import Ranges
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import (
    COPIES,
    RESHAPES,
    aligned,
    base_op,
    is_copy,
    is_same,
    kept_shape,
    operands,
    origin,
    reduced_dims,
    reduction_behind,
)

_NORMS = ("aten.linalg_vector_norm", "aten.norm", "aten.linalg_norm")
_DEVIATIONS = ("aten.std", "aten.var")
_SUMS = ("aten.sum", "aten.mean")
_INVERSES = ("aten.reciprocal", "aten.rsqrt")
_EXPANSIONS = COPIES | {"aten.expand", "aten._to_copy", "aten.to"}
_MOVES = _EXPANSIONS | RESHAPES


@dataclass(frozen=True)
class ZeroDivision:
    """`node` divides by `denominator`, itself (a div) or by the factor `inverse` (a reciprocal or rsqrt of it).

    `what` names the operator of the denominator, for the message.
    """

    node: Node
    denominator: Value
    inverse: Node | None = None
    what: str = "denominator"


@dataclass(frozen=True)
class _Cause:
    """A value is 0 only where all of `base` is, along the dimensions of `reduction` (None: element by element)."""

    base: Value
    reduction: Node | None = None


def find_zero_divisions(view: GraphView, ranges: Ranges | None = None) -> Iterator[ZeroDivision]:
    """The divisions of floats that are 0 / 0 at worst."""
    finder = _Finder(view, ranges or Ranges(view))
    for node in view.select("aten.div", "aten.mul"):
        found = finder.quotient(node)
        if found is not None:
            yield found


def is_zero_with(view: GraphView, ranges: Ranges, above: Value, size: Value, beside: Value) -> bool:
    """Whether `above` is 0 wherever `size`, which is never negative and meets it in the shape of `beside`, is 0."""
    finder = _Finder(view, ranges)
    causes = finder.causes(size)
    return bool(causes) and all(finder.vanishes(above, beside, cause) for cause in causes)


class _Finder:
    def __init__(self, view: GraphView, ranges: Ranges) -> None:
        self._view, self._ranges = view, ranges

    def quotient(self, node: Node) -> ZeroDivision | None:
        """A division that is 0 / 0 at worst; None for every other node."""
        parts = operands(node)
        if len(parts) != 2 or not all(isinstance(p, Value) and (p.dtype or "").startswith("float") for p in parts):
            return None
        if base_op(node) == "aten.div":
            if node.attributes.get("rounding_mode") is not None:
                return None
            return self._checked(node, parts[0], parts[1], parts[1])
        for numerator, factor in (parts, parts[::-1]):
            inverse = self._behind(factor, _MOVES, scaled=True)
            if base_op(inverse) in _INVERSES and inverse is not None:
                found = self._checked(node, numerator, inverse.inputs[0], factor, inverse)
                if found is not None:
                    return found
        return None

    def _checked(
        self,
        node: Node,
        above: Value | float | None,
        below: Value | float | None,
        beside: Value | float | None,
        inverse: Node | None = None,
    ) -> ZeroDivision | None:
        """`below`, or its inverse, meets `above` in the shape of `beside`."""
        if not isinstance(above, Value) or not isinstance(below, Value) or not isinstance(beside, Value):
            return None
        causes = self.causes(below) if self._ranges.of(below).low == 0.0 else []
        if not causes or not all(self.vanishes(above, beside, cause) for cause in causes):
            return None
        what = next((base_op(c.reduction) for c in causes if c.reduction is not None), "aten.abs")
        return ZeroDivision(node, below, inverse, what.rpartition(".")[2])

    def causes(self, value: Value) -> list[_Cause]:
        """One of these has to hold where `value`, which is never negative, is 0; empty where that is not known."""
        node = self._behind(value, _MOVES)
        op = base_op(node)
        if node is None or not node.inputs or node.inputs[0] is None:
            return []
        source = node.inputs[0]
        if op in _NORMS:
            order = node.attributes.get("ord", node.attributes.get("p", 2))
            positive = order is None or (isinstance(order, int | float) and order > 0) or order == "fro"
            return [_Cause(source, node)] if positive else []
        if op in _DEVIATIONS or (op in (*_SUMS, "aten.amax") and self._ranges.of(source).low >= 0):
            return [_Cause(source, node)]
        if op in ("aten.sqrt", "aten.square") or (op == "aten.pow" and _is_positive(node.attributes.get("exponent"))):
            return self.causes(source)
        if op == "aten.mul" and not self._ranges.is_square(node) and len(node.inputs) == 2:
            sides = [self.causes(v) for v in node.inputs if v is not None]
            return [c for side in sides for c in side] if len(sides) == 2 and all(sides) else []
        return [_Cause(source)] if op == "aten.abs" else []

    def vanishes(self, above: Value, below: Value, cause: _Cause) -> bool:
        """Whether `above` is 0 where the denominator `below` is, for this cause."""
        if cause.reduction is None:
            return above.shape == below.shape and self._has_factor(above, cause.base)
        if above.shape == cause.base.shape and self._lines_up(below, cause.base, cause.reduction):
            if base_op(cause.reduction) in _DEVIATIONS:
                return any(self._is_deviation(f, cause) for f in self._factors(above))
            return self._has_factor(above, cause.base)
        return self._is_sum_of(above, below, cause)

    def _lines_up(self, below: Value, base: Value, reduction: Node) -> bool:
        """Whether the denominator broadcasts along the dimensions that were reduced."""
        kept = origin(self._view, below, lambda n: is_copy(n) or base_op(n) in _EXPANSIONS)
        wanted = kept_shape(base.shape or (), reduced_dims(reduction) or ())
        return kept is not None and kept.shape is not None and aligned(kept.shape) == aligned(wanted)

    def _is_sum_of(self, above: Value, below: Value, cause: _Cause) -> bool:
        """Whether `above` adds, over the same dimensions, products with what makes the denominator 0."""
        total = self._behind(above, COPIES)
        if base_op(total) not in _SUMS or total is None or total.inputs[0] is None or above.shape is None:
            return False
        if cause.reduction is None or base_op(cause.reduction) in _DEVIATIONS:
            return False
        same = reduced_dims(total) == reduced_dims(cause.reduction)
        return same and len(below.shape or ()) in (0, len(above.shape)) and self._has_factor(
            total.inputs[0], cause.base, reshaped=True
        )  # fmt: skip

    def _has_factor(self, value: Value, base: Value, reshaped: bool = False) -> bool:
        """Whether `value` is a product of which one factor is 0 wherever `base` is."""
        wanted = self._equivalents(base)
        for factor in self._factors(value, reshaped):
            lined_up = factor.shape == base.shape or (reshaped and _stripped(factor.shape) == _stripped(base.shape))
            own = self._equivalents(factor)
            if lined_up and any(is_same(self._view, a, b) for a in own for b in wanted):
                return True
        return False

    def _factors(self, value: Value, reshaped: bool = False) -> Iterator[Value]:
        yield value
        node = self._behind(value, COPIES | {"aten.expand"} if reshaped else COPIES)
        if base_op(node) in ("aten.mul", "aten.neg", "aten.div") and node is not None:
            for part in node.inputs if base_op(node) != "aten.div" else node.inputs[:1]:
                if part is not None:
                    yield from self._factors(part, reshaped)

    def _equivalents(self, value: Value) -> list[Value]:
        """What is 0 exactly where `value` is: itself, and what it is the size, the square or a copy of."""
        found = [value]
        root = self._root(value)
        if root is not None and root.name != value.name:
            found.append(root)
        node = self._view.producer(root)
        squares = node is not None and base_op(node) == "aten.mul" and self._ranges.is_square(node)
        power = node is not None and base_op(node) == "aten.pow" and _is_positive(node.attributes.get("exponent"))
        if node is not None and (squares or power or base_op(node) in ("aten.abs", "aten.square")) and node.inputs[0]:
            found += self._equivalents(node.inputs[0])
        return found

    def _is_deviation(self, value: Value, cause: _Cause) -> bool:
        """Whether `value` is what a standard deviation is taken of, less its mean."""
        node = self._behind(value, COPIES)
        if base_op(node) != "aten.sub" or node is None or len(node.inputs) != 2 or cause.reduction is None:
            return False
        source, mean = node.inputs
        found = reduction_behind(self._view, mean, cause.base.shape or ())
        return (
            is_same(self._view, source, cause.base)
            and found is not None
            and found[1]
            and base_op(found[0]) == "aten.mean"
            and reduced_dims(found[0]) == reduced_dims(cause.reduction)
            and is_same(self._view, found[0].inputs[0], cause.base)
        )

    def _root(self, value: Value) -> Value | None:
        """What `value` is a reshaped or cast copy of."""
        return origin(self._view, value, lambda n: is_copy(n) or base_op(n) in _MOVES)

    def _behind(self, value: Value | float | None, through: frozenset[str], scaled: bool = False) -> Node | None:
        """The node that computes `value`, looking through some operators, and through products with a number."""

        def passes(node: Node) -> bool:
            by_number = scaled and base_op(node) == "aten.mul" and not isinstance(operands(node)[-1], Value)
            return is_copy(node) or base_op(node) in through or by_number

        return self._view.producer(origin(self._view, value, passes)) if isinstance(value, Value) else None


def _is_positive(exponent: object) -> bool:
    return isinstance(exponent, int | float) and exponent > 0


def _stripped(shape: tuple[int | str, ...] | None) -> tuple[int | str, ...]:
    sizes = list(shape or ())
    while sizes and sizes[-1] == 1:
        sizes.pop()
    return tuple(sizes)
