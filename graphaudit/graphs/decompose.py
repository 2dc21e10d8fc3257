"""A captured program as a target without high-level kernels sees it."""

from __future__ import annotations

from collections.abc import Callable

from torch import fx
from torch.export import default_decompositions

from graphaudit.graphs.open_sizes import open_sizes
from graphaudit.graphs.program import Program
from graphaudit.quiet import quiet


def decompose(program: Program, chosen: Callable[[str], bool]) -> Program:
    """The program with each operator that `chosen` picks (by name, `aten.linear.default`) replaced by what torch makes
    of it, and its state among its inputs and outputs; places in the user's source are kept. `program` itself where
    nothing is picked."""
    modules = [m for m in program.exported.graph_module.modules() if isinstance(m, fx.GraphModule)]
    names = {str(n.target) for m in modules for n in m.graph.nodes if n.op == "call_function"}
    if not any(chosen(name) for name in names):
        return program
    made = default_decompositions().items()  # type: ignore[no-untyped-call]
    table = {op: decomposition for op, decomposition in made if chosen(str(op))}
    if program.held_state:
        program = program.copy().lift_state()  # torch retraces by the arguments that it was exported with
    with quiet(), open_sizes():
        return program.derived(program.exported.run_decompositions(table), program.interface)
