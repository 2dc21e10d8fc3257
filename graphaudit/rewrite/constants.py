"""Values of a captured program that no input can change."""

from __future__ import annotations

import torch
from torch import fx

from graphaudit.graphs.fx_view import operator_name
from graphaudit.graphs.noise import draws
from graphaudit.graphs.program import Program


def constant(program: Program, argument: object) -> torch.Tensor | None:
    """A parameter, buffer or constant; None if `argument` is none, or if forward writes to it."""
    value = program.value(argument)
    if value is None or not isinstance(argument, fx.Node):
        return None
    specs = program.exported.graph_signature.input_specs
    name = next(s.target for s in specs if s.arg.name == argument.name)
    return None if name in program.mutated else value.detach()


# Operators that make a tensor out of numbers.
_MAKERS = ("aten.arange", "aten.eye", "aten.full", "aten.linspace", "aten.ones", "aten.scalar_tensor", "aten.zeros")


class Constants:
    """The constants of a program, and what deterministic operators make of them alone, or of Python numbers."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[fx.Node, torch.Tensor | None] = {}
        self._computed: set[fx.Node] = set()
        for node in program.graph.nodes:
            if node.op == "call_function" and not draws(node):
                sources = node.all_input_nodes
                made = operator_name(node.target)[0].rpartition(".")[0] in _MAKERS
                if (sources or made) and all(map(self._is_constant, sources)):
                    self._computed.add(node)

    def value(self, argument: object) -> torch.Tensor | None:
        """The tensor that a node always is; None for all else."""
        if not isinstance(argument, fx.Node):
            return None
        if argument not in self._known:
            computed = argument in self._computed
            self._known[argument] = self._compute(argument) if computed else constant(self._program, argument)
        return self._known[argument]

    def _is_constant(self, node: fx.Node) -> bool:
        return node in self._computed or constant(self._program, node) is not None

    def _compute(self, node: fx.Node) -> torch.Tensor | None:
        known = {source: self.value(source) for source in node.all_input_nodes}
        if any(value is None for value in known.values()):
            return None
        with torch.no_grad():
            args, kwargs = fx.map_arg((node.args, node.kwargs), known.__getitem__)
            result = node.target(*args, **kwargs)  # type: ignore[operator]
        return result if isinstance(result, torch.Tensor) else None
