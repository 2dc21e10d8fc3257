"""What a region computes, without regions: a loop as masked passes, a branch as both sides and a choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.traceback import preserve_node_meta

from graphaudit.findings import Place
from graphaudit.graphs.loop_bounds import Bounds
from graphaudit.graphs.places import place_in_trace
from graphaudit.graphs.regions import COND, WHILE_LOOP, bound_of
from graphaudit.graphs.selection import where


@dataclass
class Fired:
    """A loop whose masked passes did not do: `fires` is 0-d bool."""

    fires: torch.Tensor
    place: Place | None
    bound: int


class Lowering(fx.Interpreter):
    """Runs the graph of a region, and every region inside it without regions. Loops of unknown bound must not occur."""

    def __init__(self, graph: fx.GraphModule, bounds: Bounds, mask: torch.Tensor | None = None) -> None:
        super().__init__(graph)
        self._bounds = bounds
        self._mask = mask
        self._node: fx.Node | None = None
        self.fired: list[Fired] = []

    def run_node(self, n: fx.Node) -> Any:
        """As fx does it, with the node at hand: its line says how often its loop may run."""
        self._node = n
        return super().run_node(n)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A region becomes its own lowering; everything else is called."""
        if target is WHILE_LOOP:
            assert self._node is not None
            return self.loop(self._node, *args)
        if target is COND:
            return self.branch(*args)
        return super().call_function(target, args, kwargs)

    def loop(
        self, node: fx.Node, test: fx.GraphModule, body: fx.GraphModule, carried: Sequence[Any], outer: Sequence[Any]
    ) -> tuple[torch.Tensor, ...]:
        """`bound` passes, each where the loop is still running, and a guard for what is beyond."""
        bound, proven = bound_of(node, self._bounds)
        assert bound is not None
        values = list(carried)
        running = self._mask
        for _ in range(bound):
            running = self._both(running, self._run(test, [*values, *outer], None))
            left = self._run(body, [*values, *outer], running)
            values = [where(running, new, old) for new, old in zip(left, values)]
        if not proven:
            goes_on = self._both(running, self._run(test, [*values, *outer], None))
            self.fired.append(Fired(goes_on, place_in_trace(node.meta.get("stack_trace")), bound))
        return tuple(values)

    def branch(
        self, test: torch.Tensor, taken: fx.GraphModule, other: fx.GraphModule, operands: Sequence[Any] = ()
    ) -> tuple[torch.Tensor, ...]:
        """Both sides, and for each result a choice."""
        left = self._run(taken, operands, self._both(self._mask, test))
        right = self._run(other, operands, self._both(self._mask, torch.logical_not(test)))
        return tuple(where(test, one, two) for one, two in zip(left, right))

    def _run(self, graph: fx.GraphModule, inputs: Sequence[Any], mask: torch.Tensor | None) -> Any:
        inner = Lowering(graph, self._bounds, mask)
        with preserve_node_meta():
            results = inner.run(*inputs)
        self.fired += inner.fired
        return results

    @staticmethod
    def _both(one: torch.Tensor | None, other: torch.Tensor) -> torch.Tensor:
        return other if one is None else torch.logical_and(one, other)
