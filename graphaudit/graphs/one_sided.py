"""Runs a graph that still draws in branches: a draw on the side that is not taken leaves its generator where it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from graphaudit.graphs.held import restore, snapshot, source_named
from graphaudit.graphs.noise import DRAWN, bound, draws


def draws_on_one_side(graph: fx.Graph) -> bool:
    """Whether some draw is made under a condition of the policy's."""
    return any(draws(n) and _condition(n) is not None for n in graph.nodes)


def one_sided_runner(module: fx.GraphModule, drawn: int) -> Callable[..., Any]:
    """`module` as a function; its last `drawn` outputs are the conditions."""
    conditions: Sequence[fx.Node] = module.graph.output_node().args[0][-drawn:]  # type: ignore[index,assignment]

    class Runner(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            condition = _condition(n) if draws(n) else None
            if condition is None or bool(self.env.get(conditions[condition], True)):
                return super().run_node(n)
            source = self._source(n)
            before = snapshot(source)
            try:
                return super().run_node(n)
            finally:
                restore(source, before)

        def _source(self, n: fx.Node) -> Any:
            given = bound(n)
            if "source" in given:
                return source_named(given["source"])
            generator = given.get("generator")
            return torch.default_generator if generator is None else self.env[generator]

    return Runner(module).run


def _condition(node: fx.Node) -> int | None:
    found: int | None = node.meta.get("custom", {}).get(DRAWN)
    return found
