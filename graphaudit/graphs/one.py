"""What stands beside the number 1 in a captured program: 1 + x and 1 - x, and the logarithms that make an atanh."""

from __future__ import annotations

from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import base_op, is_same, number, operands, producer


def beside_one(view: GraphView, value: Value | float | None) -> tuple[Value, int] | None:
    """(x, sign) of 1 + sign * x."""
    node = producer(view, value) if isinstance(value, Value) else None
    parts = operands(node) if node is not None else ()
    if node is None or len(parts) != 2 or node.attributes.get("alpha", 1) != 1:
        return None
    one, x = parts if base_op(node) != "aten.rsub" else parts[::-1]
    if base_op(node) == "aten.add" and number(view, x) == 1.0:
        one, x = x, one
    known = base_op(node) in ("aten.add", "aten.sub", "aten.rsub") and number(view, one) == 1.0
    return (x, 1 if base_op(node) == "aten.add" else -1) if known and isinstance(x, Value) else None


def under_two_atanh(view: GraphView, node: Node | None) -> Value | None:
    """x of log((1 + x) / (1 - x)), log(1 + x) - log(1 - x), or the latter with log1p: twice atanh(x)."""
    if node is None or node.attributes.get("alpha", 1) != 1:
        return None
    above: tuple[Value, int] | None
    below: tuple[Value, int] | None
    if base_op(node) == "aten.log":
        inner = producer(view, node.inputs[0])
        parts = operands(inner) if inner is not None and base_op(inner) == "aten.div" else ()
        above, below = (beside_one(view, p) for p in parts) if len(parts) == 2 else (None, None)
    elif base_op(node) == "aten.sub":
        logs = [producer(view, o) for o in operands(node) if isinstance(o, Value)]
        above, below = (_logged(view, n) for n in logs) if len(logs) == 2 else (None, None)
    else:
        return None
    if above is None or below is None or (above[1], below[1]) != (1, -1) or not is_same(view, above[0], below[0]):
        return None
    return above[0]


def _logged(view: GraphView, node: Node | None) -> tuple[Value, int] | None:
    """(x, sign) of log(1 + sign * x) or log1p(sign * x)."""
    if node is None or base_op(node) not in ("aten.log", "aten.log1p") or node.inputs[0] is None:
        return None
    if base_op(node) == "aten.log":
        return beside_one(view, node.inputs[0])
    inner = producer(view, node.inputs[0])
    if inner is not None and base_op(inner) == "aten.neg" and inner.inputs[0] is not None:
        return inner.inputs[0], -1
    return node.inputs[0], 1
