"""State that forward keeps between calls: what it writes, and whether any later result depends on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.findings import Place, Severity
from graphaudit.graphs.ancestors import ancestors
from graphaudit.rules.checks._events import events
from graphaudit.rules.checks._source import Function, functions

if TYPE_CHECKING:
    from torch import nn

    from graphaudit.audit.subject import Subject
    from graphaudit.capture import Event

_HIDDEN = ("hidden", "memory", "carry", "recurrent", "lstm", "gru", "rnn")
_PUTS = ("append", "appendleft", "extend", "insert", "add", "update", "clear")  # a container's methods that only write
_SHORT = ("h", "c", "hx", "cx", "state")  # a state if it stands beside a recurrent layer


def state_severity(subject: Subject, event: Event) -> Severity:
    """ERROR where a later result depends on what was written (a bundle would drop it), else WARNING."""
    return Severity.ERROR if matters(subject, event) else Severity.WARNING


def writes(subject: Subject, *kinds: str) -> Iterator[tuple[Place | None, str, Severity]]:
    """Every line that writes to state: place, the names of all that it writes to, and the worst severity of them."""
    lines: dict[tuple[str, int] | None, list[Event]] = {}
    for event in events(subject, *kinds):
        key = (event.place.file, event.place.line) if event.place else None
        lines.setdefault(key, []).append(event)
    for found in lines.values():
        names = ", ".join(sorted({e.detail for e in found}))
        yield found[0].place, names, max((state_severity(subject, e) for e in found), key=lambda s: s.rank)


def matters(subject: Subject, event: Event) -> bool:
    """Whether a later result depends on the buffer, parameter or attribute that the event writes."""
    live = _live(subject)
    if live is not None and event.detail in live:
        return live[event.detail]
    changes = subject.observation is not None and subject.observation.changes_between_calls
    reads = _reads(functions(subject.policy), event.detail.rpartition(".")[2])
    if reads is None:
        return changes
    ever, first = reads
    return first or (changes and ever)


def is_read(subject: Subject, event: Event) -> bool:
    """Whether the policy's code reads the attribute anywhere, other than to write to it."""
    reads = _reads(functions(subject.policy), event.detail.rpartition(".")[2])
    return reads is None or reads[0]


def owner(policy_module: nn.Module, path: str) -> nn.Module | None:
    """The module that holds the buffer or attribute at a dotted path; None where there is none."""
    prefix = path.rpartition(".")[0]
    return dict(policy_module.named_modules()).get(prefix)


def is_hidden_state(subject: Subject, event: Event) -> bool:
    """Whether what is written is a recurrent state: by its name, or by a short name beside a recurrent layer."""
    words = [w.rstrip("0123456789") for w in event.detail.rpartition(".")[2].strip("_").lower().split("_")]
    if any(w in _HIDDEN for w in words):
        return True
    if subject.policy is None or words[-1] not in _SHORT:
        return False
    from torch import nn

    holder = owner(subject.policy.module, event.detail)
    return holder is not None and any(isinstance(m, nn.RNNBase | nn.RNNCellBase) for m in holder.children())


def _live(subject: Subject) -> dict[str, bool] | None:
    """Written name → whether a result, now or in a later call, depends on it; None without a graph.

    A buffer is live if its old value reaches a result, or reaches what is written to a live buffer.
    """
    program = subject.capture.program if subject.capture is not None else None
    if program is None:
        return None
    written = program.mutated
    signature = program.exported.graph_signature
    sources = {s.target: s.arg.name for s in signature.input_specs if s.target in written}
    results = set(signature.user_outputs)
    feeds = {name: ancestors([node]) for name, node in written.items()}
    flat = program.graph.output_node().args[0]
    needed = ancestors([n for n in flat if getattr(n, "name", None) in results])  # type: ignore[union-attr]
    live: dict[str, bool] = {}
    while True:
        known = {name for name in written if sources.get(name) in needed}
        if known == {n for n, v in live.items() if v}:
            return {name: name in known for name in written}
        live = {name: name in known for name in written}
        needed = needed.union(*(feeds[name] for name in known))


def _reads(own: list[Function], attribute: str) -> tuple[bool, bool] | None:
    """(whether the functions read the attribute at all, whether one reads it before it writes it); None: no mention.

    A function that only reads says nothing of the order: what it reads may have been written in the same call.
    """
    ever, before, mentioned = False, False, False
    for function in own:
        found = sorted(_mentions(function, attribute), key=lambda m: (m[0].lineno, m[1] != "read"))
        mentioned = mentioned or bool(found)
        always = _unconditional(function)
        first_write = next(
            (i for i, (node, kind) in enumerate(found) if kind == "write" and node in always), len(found)
        )
        ever = ever or any(kind == "read" for _, kind in found)
        if any(kind != "read" for _, kind in found):
            before = before or any(kind == "read" for _, kind in found[:first_write])
    return (ever, before) if mentioned else None


def _mentions(function: Function, attribute: str) -> list[tuple[ast.Attribute, str]]:
    """Every `self.NAME` with what happens to it: `read`, `write`, or `update`, which reads only to write."""
    found: list[tuple[ast.Attribute, str]] = []
    updates = {id(n) for node in ast.walk(function.tree) for n in _updated(node)}
    for node in ast.walk(function.tree):
        if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.value, ast.Name):
            if id(node) in updates:
                found.append((node, "update"))
            else:
                found.append((node, "read" if isinstance(node.ctx, ast.Load) else "write"))
    return found


def _updated(node: ast.AST) -> list[ast.AST]:
    """What a statement only updates: `self.n += 1`, `self.n.add_(1)`, `self.log.append(x)`, `self.log["x"] = x`."""
    match node:
        case ast.AugAssign(target=target):
            return [target]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=value, attr=method))) if (
            method.endswith("_") or method in _PUTS
        ):
            return [value]
        case ast.Assign(targets=targets):
            return [t.value for t in targets if isinstance(t, ast.Subscript)]
    return []


def _unconditional(function: Function) -> set[ast.AST]:
    """Nodes of the statements that run in every call of the function."""
    plain = (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)
    return {n for s in function.tree.body if isinstance(s, plain) for n in ast.walk(s)}
