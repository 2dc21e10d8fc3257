"""Captures a policy with the state that it keeps between calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphaudit.capture.attributes import AttributeWatch
from graphaudit.capture.events import Blocker, Event, EventKind, Observation
from graphaudit.capture.frontend import Capture, capture
from graphaudit.capture.written import Written
from graphaudit.control_flow import ControlFlow
from graphaudit.graphs.ancestors import ancestors
from graphaudit.graphs.program import Program
from graphaudit.policy import Policy
from graphaudit.policy.state import Layout, roots_of
from graphaudit.policy.stateful import Calls, Places, stepped, unlike_reset
from graphaudit.policy.stepping import Stepped


def captured_steps(
    policy: Policy, calls: Calls = (), places: Places = (), control_flow: ControlFlow = ControlFlow.MASKS
) -> tuple[Policy | None, Capture]:
    """The stepped policy and its capture; None and the capture of the policy itself where it keeps no state that
    matters, or where its steps cannot be captured.

    `calls` are arguments to try beside the example, `places` lines that write to attributes. Raises StateRefused.
    """
    made = _with_places(stepped(policy, calls, places=places))
    captured = capture(made or policy, control_flow=control_flow)
    idle: frozenset[str] = frozenset()
    unseen: Written = {}  # what no call so far has written, or has left at these values, although one may
    while True:
        dropped = _idle(captured.program) - idle
        found = {p: v for p, v in _unseen(policy, made, captured).items() if p not in idle and unseen.get(p) != v}
        if not dropped and not found:
            break
        idle, unseen = idle | dropped, unseen | found
        made = _with_places(stepped(policy, calls, idle, places, {p: unseen[p] for p in unseen.keys() - idle}))
        captured = capture(made or policy, control_flow=control_flow)
    if captured.program is not None:
        captured.conditions += _conditions(made)
        return made, captured
    if made is None:
        return None, captured
    alone = capture(policy, control_flow=control_flow)
    return None, alone if alone.program is not None and not alone.written.keys() - idle else captured


def unseen_writes(policy: Policy, made: Policy, observation: Observation) -> list[Event]:
    """Events for state of the stepped policy `made` that only the capture has seen written: under a rare condition."""
    known = {e.detail for e in observation.of(EventKind.WRITE_BUFFER, EventKind.WRITE_ATTRIBUTE)}
    module = policy.working.module
    roots = [r for r in roots_of(module, {s.path for s in made.interface.state}) if r.path not in known]
    kinds = {True: EventKind.WRITE_BUFFER, False: EventKind.WRITE_ATTRIBUTE}
    return [Event(kinds[r.is_buffer], AttributeWatch.use_of(r.owner, r.name), r.path) for r in roots]


def parameters_refused(written: Sequence[Event]) -> Capture:
    """A failed capture, because forward writes to parameters that cannot be made state."""
    reason = "forward writes to the parameter {}, which cannot be made state here"
    return Capture(None, None, [Blocker(reason.format(e.detail), e.place) for e in written])


def _with_places(made: Policy | None) -> Policy | None:
    """A line that writes to each part of the state, also where no call so far has come to it."""
    if made is not None:
        assert isinstance(made.module, Stepped)
        module = made.module.policy
        places = {
            state.path: [AttributeWatch.use_of(root.owner, root.name) for root in roots_of(module, {state.path})]
            for state in made.interface.state
            if not state.places
        }
        states = (replace(s, places=tuple(filter(None, places.get(s.path, s.places)))) for s in made.interface.state)
        made.__dict__["interface"] = replace(made.interface, state=tuple(states))
    return made


def _unseen(policy: Policy, made: Policy | None, captured: Capture) -> Written:
    """What the graph writes to of attributes and buffers, and that is no part of the state yet, or of fewer values."""
    module = made.module if made is not None else None
    known = {p.path: p.choices for p in module.parts.values()} if isinstance(module, Stepped) else {}
    there = Layout.of(policy.working.module).leaves()
    return {
        path: tuple(dict.fromkeys((*known.get(path, ()), *values)))
        for path, values in captured.written.items()
        if path in there and (path not in known or not set(values) <= set(known[path]))
    }


def _conditions(made: Policy | None) -> list[str]:
    unlike = unlike_reset(made) if made is not None else []
    said = "the bundle starts from the values that the module was handed over with"
    return [f"the module's own reset() gives other values to {', '.join(unlike)}; {said}"] if unlike else []


def _idle(program: Program | None) -> frozenset[str]:
    """Paths of the state on which no result depends, of this call or a later one."""
    if program is None:
        return frozenset()
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
