"""Loops and branches that are still structured in an FX graph: `torch.while_loop` and `torch.cond`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from graphaudit.graphs.loop_bounds import Bounds
from graphaudit.graphs.places import place_in_trace

WHILE_LOOP = torch.ops.higher_order.while_loop
COND = torch.ops.higher_order.cond
REGIONS = (WHILE_LOOP, COND)


def bound_of(node: fx.Node, bounds: Bounds) -> tuple[int | None, bool]:
    """(the most passes of a loop, whether they are proven); None where nothing says."""
    counted = _counted(node)
    given = bounds.at(place_in_trace(node.meta.get("stack_trace")))
    if counted is not None and (given is None or counted <= given):
        return counted, True
    return given, False


def regions_in(node: fx.Node) -> Iterator[fx.Node]:
    """A region and all regions inside it, inner ones last."""
    yield node
    for graph in graphs_of(node):
        for inner in graph.graph.nodes:
            if inner.op == "call_function" and inner.target in REGIONS:
                yield from regions_in(inner)


def graphs_of(node: fx.Node) -> list[fx.GraphModule]:
    """The two graphs of a region: condition and body, or both sides."""
    owner = node.graph.owning_module
    first = 0 if node.target is WHILE_LOOP else 1
    return [getattr(owner, str(a.target)) for a in node.args[first : first + 2]]  # type: ignore[union-attr]


def _counted(node: fx.Node) -> int | None:
    """The passes that a counter allows: it starts at a constant, grows by a constant, and the loop asks for it to stay
    below a third, alone or in a conjunction."""
    test, body = graphs_of(node)
    found = [_limit(node, body, part) for part in _conjuncts(test.graph.output_node().args[0])]
    return min((f for f in found if f is not None), default=None)


def _conjuncts(value: Any) -> Iterator[fx.Node]:
    if isinstance(value, tuple | list):
        value = value[0]
    if isinstance(value, fx.Node):
        both = (torch.ops.aten.logical_and.default, torch.ops.aten.bitwise_and.Tensor, torch.ops.aten.__and__.Tensor)
        if value.target in both:
            for part in value.args[:2]:
                yield from _conjuncts(part)
        elif value.target is torch.ops.aten.clone.default:
            yield from _conjuncts(value.args[0])
        else:
            yield value


def _limit(node: fx.Node, body: fx.GraphModule, part: fx.Node) -> int | None:
    last = {torch.ops.aten.lt.Scalar: 0, torch.ops.aten.le.Scalar: 1}
    if part.target not in last or not isinstance(part.args[1], int) or not isinstance(part.args[0], fx.Node):
        return None
    index = _position(part.args[0])
    carried = node.args[2]
    if index is None or index >= len(carried):  # type: ignore[arg-type]
        return None
    start = _constant(carried[index])  # type: ignore[index]
    step = _growth(body, index)
    if start is None or step is None:
        return None
    return max(0, -(-(part.args[1] + last[part.target] - start) // step))


def _position(value: fx.Node) -> int | None:
    places = list(value.graph.find_nodes(op="placeholder"))
    return places.index(value) if value in places else None


def _growth(body: fx.GraphModule, index: int) -> int | None:
    left = body.graph.output_node().args[0][index]  # type: ignore[index]
    if not isinstance(left, fx.Node) or left.target is not torch.ops.aten.add.Tensor:
        return None
    grown, by = left.args[:2]
    same = isinstance(grown, fx.Node) and _position(grown) == index
    return by if same and isinstance(by, int) and by > 0 and not left.kwargs else None


def _constant(value: Any) -> int | None:
    """The integer that a node holds for certain: a 0-d tensor made of a number."""
    if not isinstance(value, fx.Node) or value.meta["val"].is_floating_point() or value.meta["val"].dim():
        return None
    if value.target is torch.ops.aten.full.default and isinstance(value.args[1], int):
        return value.args[1]
    if value.target is torch.ops.aten.scalar_tensor.default and isinstance(value.args[0], int):
        return value.args[0]
    return 0 if value.target is torch.ops.aten.zeros.default else None
