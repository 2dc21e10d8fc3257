"""Python numbers that came out of tensors, and the expressions that read them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.rules.checks._events import events
from graphaudit.rules.checks._source import Function, functions

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.capture import Event


def readers(subject: Subject, *kinds: str) -> Iterator[tuple[Function, ast.AST, Event]]:
    """Every expression that reads a number of a tensor: the very one that an event names, or a name it was bound to.

    `speed = x.norm().item()` gives the call itself and every later `speed` in the function.
    """
    own = functions(subject.policy)
    for event in events(subject, *kinds):
        for function in own:
            if event.place is None or not function.covers(event.place):
                continue
            names = _assigned(function.statement(event.place))
            for node in ast.walk(function.tree):
                bound = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names
                if bound or (isinstance(node, ast.expr) and _starts_at(node, event)):
                    yield function, node, event


def _starts_at(node: ast.expr, event: Event) -> bool:
    place = event.place
    return place is not None and (node.lineno, node.col_offset) == (place.line, place.column)


def _assigned(statement: ast.stmt | None) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.For):
        targets = [statement.target]
    return {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
