"""Captures a policy with the state that it keeps between calls."""

from __future__ import annotations

from collections.abc import Sequence

from graphaudit.capture.frontend import Capture, capture
from graphaudit.control_flow import ControlFlow
from graphaudit.graphs.ancestors import ancestors
from graphaudit.graphs.program import Program
from graphaudit.policy import Policy
from graphaudit.policy.stateful import Calls, Places, stepped, unlike_reset


def captured_steps(
    policy: Policy, calls: Calls = (), places: Places = (), control_flow: ControlFlow = ControlFlow.MASKS
) -> tuple[Policy | None, Capture]:
    """The stepped policy and its capture; None and the capture of the policy itself where it keeps no state that
    matters, or where its steps cannot be captured.

    `calls` are arguments to try beside the example, `places` lines that write to attributes. Raises StateRefused.
    """
    made = stepped(policy, calls, places=places)
    if made is None:
        return None, capture(policy, control_flow=control_flow)
    captured = capture(made, control_flow=control_flow)
    if captured.program is not None:
        idle = _idle(captured.program)
        if idle:
            made = stepped(policy, calls, idle, places)
            captured = capture(made or policy, control_flow=control_flow)
    if captured.program is not None:
        captured.conditions += _conditions(made)
        return made, captured
    alone = capture(policy, control_flow=control_flow)
    return None, alone if alone.program is not None else captured


def _conditions(made: Policy | None) -> list[str]:
    unlike = unlike_reset(made) if made is not None else []
    said = "the bundle starts from the values that the module was handed over with"
    return [f"the module's own reset() gives other values to {', '.join(unlike)}; {said}"] if unlike else []


def _idle(program: Program) -> frozenset[str]:
    """Paths of the state on which no result depends, of this call or a later one."""
    written = program.mutated
    held = {s.target: s.arg.name for s in program.exported.graph_signature.input_specs if s.target in written}
    needed = ancestors([n for n in _results(program) if n is not None])
    live: set[str] = set()
    while more := {path for path in written if path not in live and held.get(path) in needed}:
        live |= more
        needed |= ancestors([written[path] for path in more])
    return frozenset(s.path for s in program.interface.state if s.path not in live)


def _results(program: Program) -> Sequence[object]:
    wanted = set(program.exported.graph_signature.user_outputs)
    return [n for n in program.graph.output_node().args[0] if getattr(n, "name", None) in wanted]  # type: ignore[union-attr]
