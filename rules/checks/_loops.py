"""Loops whose trip count is data."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from graphaudit.findings import Place
from graphaudit.graphs.places import place_in_trace
from graphaudit.rules.checks._source import Function

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.capture import Event
    from graphaudit.policy import Policy

_NO_LIMIT = 2**63 - 1  # the trip count of a `while` in TorchScript


def leaves_loop(event: Event) -> bool:
    """Whether a tensor condition decides if a loop ends: a `break` under it, in a loop around it."""
    return "break" in event.inside and event.statement != "while"


def endless_loop(functions: Iterable[Function], place: Place | None) -> bool:
    """Whether `place` is a condition inside `while True`, which nothing but such a condition ends."""
    return any(_is_endless(w) for w in _whiles(functions, place))


def bounded(functions: Iterable[Function], place: Place | None) -> bool:
    """Whether the `while` at `place` also tests a count, as `while x.norm() > 1 and i < 8` does."""
    return any(
        isinstance(w.test, ast.BoolOp) and isinstance(w.test.op, ast.And) and _counts(w.test)
        for w in _whiles(functions, place)
    )


def scripted_loops(policy: Policy | None) -> Iterator[Place | None]:
    """The `while` loops in the TorchScript functions and modules that a policy holds."""
    if policy is None or policy.exported is not None:
        return
    import torch

    graphs: list[Any] = []
    for part in policy.module.modules():
        if isinstance(part, torch.jit.ScriptModule):
            graphs += [part.graph] if hasattr(part, "graph") else []
        else:
            graphs += [v.graph for v in vars(part).values() if isinstance(v, torch.jit.ScriptFunction)]
    for graph in graphs:
        for loop in graph.findAllNodes("prim::Loop", True):
            if next(iter(loop.inputs())).toIValue() == _NO_LIMIT:
                yield place_in_trace(loop.sourceRange())


def unbounded_regions(subject: Subject) -> Iterator[Place | None]:
    """The loops of the captured graph that have no bound, where the target runs no loops."""
    program = subject.capture.program if subject.capture is not None else None
    if program is None or subject.rulebook is None or subject.rulebook.target.loops:
        return
    from graphaudit.graphs.regions import WHILE_LOOP, bound_of, regions_in

    for node in program.graph.find_nodes(op="call_function", target=WHILE_LOOP):
        for inner in regions_in(node):
            if inner.target is WHILE_LOOP and bound_of(inner, program.bounds)[0] is None:
                yield program.place(inner)


def _whiles(functions: Iterable[Function], place: Place | None) -> Iterator[ast.While]:
    for function in functions:
        if place is not None and function.covers(place):
            for node in ast.walk(function.tree):
                if isinstance(node, ast.While) and node.lineno <= place.line <= (node.end_lineno or node.lineno):
                    yield node


def _is_endless(loop: ast.While) -> bool:
    return isinstance(loop.test, ast.Constant) and bool(loop.test.value)


def _counts(test: ast.BoolOp) -> bool:
    """Whether one operand compares a plain name with a constant or another name: `i < 8`, `i < self.limit`."""
    plain = (ast.Name, ast.Attribute, ast.Constant)
    return any(
        isinstance(v, ast.Compare) and isinstance(v.left, plain) and isinstance(v.comparators[0], plain)
        for v in test.values
    )
