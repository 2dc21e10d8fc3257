"""Which values of a captured program can be NaN, as far as the program itself says.

NaN comes from a value that the policy tests for NaN or cleans of it, and from a division of something that can be 0 by
a norm, an absolute value or a count that can be 0. It goes through every operator but those that replace it. A policy
that says nothing of NaN gets none of it from its inputs.
"""

from __future__ import annotations

import networkx as nx

from graphaudit.graphs.ranges import Ranges
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import base_op, is_same, operands, origin, producer

_TESTS = ("aten.isnan", "aten.isfinite", "aten.nan_to_num", "aten.nanmean", "aten.nansum", "aten.nanmedian")
_CLEANING = frozenset({"aten.nan_to_num", "aten.nanmean", "aten.nansum"})
_FLOATS = ("float", "bfloat", "complex")


def speaks_of_nan(view: GraphView) -> bool:
    """Whether the program tests anything for NaN or infinity, or cleans it of them."""
    return any(base_op(node) == "aten.isinf" or _tested(view, node) for node in view.nodes)


class Nans:
    """The values of `view` that can be NaN."""

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._ranges = Ranges(view)
        self._names = {o.name for n in view.nodes for v in _tested(view, n) if (o := origin(view, v)) is not None}
        for node in view.nodes:
            if base_op(node) not in _CLEANING and (self._makes(node) or any(self.reach(v) for v in self._read(node))):
                self._names.update(v.name for v in node.outputs if (v.dtype or "").startswith(_FLOATS))

    def reach(self, value: Value | None) -> bool:
        """Whether `value` can be NaN."""
        return value is not None and value.name in self._names

    def _read(self, node: Node) -> list[Value | None]:
        """The inputs whose NaN gets into the results: not those that a mask replaces where they are NaN."""
        op = base_op(node)
        if op == "aten.masked_fill" and len(node.inputs) >= 2:
            return [v for v in (node.inputs[0],) if not self._masks(node.inputs[1], v, True)] + list(node.inputs[2:])
        if op == "aten.where":
            condition, *branches = node.inputs
            wanted = [flag for flag, name in ((False, "self"), (True, "other")) if name not in node.attributes]
            return [v for v, flag in zip(branches, wanted) if not self._masks(condition, v, flag)]
        return list(node.inputs)

    def _masks(self, mask: Value | None, value: Value | None, wanted: bool) -> bool:
        """Whether `mask` is `wanted` wherever `value` is NaN."""
        node = producer(self._view, mask)
        while node is not None and base_op(node) in ("aten.logical_not", "aten.bitwise_not"):
            node, wanted = producer(self._view, node.inputs[0]), not wanted
        op = base_op(node)
        if node is None or op not in ("aten.isnan", "aten.ne", "aten.isfinite", "aten.eq"):
            return False
        if op in ("aten.ne", "aten.eq") and not _with_itself(self._view, node):
            return False
        return wanted is (op in ("aten.isnan", "aten.ne")) and is_same(self._view, node.inputs[0], value)

    def _makes(self, node: Node) -> bool:
        """Whether this is a division that can be 0 / 0, by a denominator that has one sign."""
        parts = operands(node)
        if base_op(node) != "aten.div" or len(parts) != 2 or node.attributes.get("rounding_mode") is not None:
            return False
        above, below = (self._ranges.of(p) for p in parts)
        return above.has(0.0) and 0.0 in (below.low, below.high)


def tests_behind(view: GraphView, node: Node) -> bool:
    """Whether the policy itself asks, of what `node` computes or of what follows from it, if it is finite or NaN."""
    tests = {n.name for n in view.nodes if _tested(view, n) or base_op(n) == "aten.isinf"}
    return bool(tests) and not tests.isdisjoint(nx.descendants(view.digraph, node.name))


def _tested(view: GraphView, node: Node) -> list[Value | None]:
    op = base_op(node)
    itself = op in ("aten.ne", "aten.eq") and _with_itself(view, node)
    return [node.inputs[0]] if itself or (op in _TESTS and node.inputs) else []


def _with_itself(view: GraphView, node: Node) -> bool:
    return len(node.inputs) == 2 and is_same(view, node.inputs[0], node.inputs[1])
