"""Which passes run, with which options, from what a user writes: `a,b(option=1),c`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from graphaudit.errors import PassError
from graphaudit.registry import passes as registered
from graphaudit.rewrite.base import Level, Pass
from graphaudit.rewrite.pipeline import order
from graphaudit.rulebook.target import Target
from graphaudit.text import one_line, suggestion


def select(passes: str | None = None, skip: Iterable[str] = (), target: Target | None = None) -> list[Pass[Any]]:
    """The pipeline: FX passes in their order, then ONNX passes in theirs.

    `passes` names those that run (None: all that run without being asked for), each with its options in parentheses;
    `skip` names those that do not; with `target`, those that are not for it are left out. The order they are written
    in does not matter. Raises PassError for a name or option that is none, with the nearest one, and RuleError where
    the passes' needs cannot be met.
    """
    if passes is None:
        chosen = [cls() for cls in registered().values() if cls.default]
    else:
        chosen = [_instance(known_pass(name), options) for name, options in _parse(passes)]
        names = [p.name for p in chosen]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice:
            raise PassError(f"the pass {twice} is named twice", "Each pass runs once; name it once.")
    skipped = {known_pass(name).name for name in skip}
    chosen = [p for p in chosen if p.name not in skipped]
    ordered = [p for level in Level for p in order([p for p in chosen if p.level is level])]
    return [p for p in ordered if target is None or p.suits(target)]  # in the order in which all of them run


def known_pass(name: str) -> type[Pass[Any]]:
    """The pass of that name. Raises PassError with the nearest name if there is none."""
    known = registered()
    if name not in known:
        near = suggestion(name, known)
        raise PassError(f"there is no pass {one_line(name)!r}", near or "`graphaudit passes` lists all of them.")
    return known[name]


def _parse(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and options. The notation is Python's for calls; a bare word as a value is a string."""
    try:
        listed = ast.parse(f"[{text}]", mode="eval").body
    except (SyntaxError, ValueError):
        raise _unreadable(text) from None
    for item in listed.elts if isinstance(listed, ast.List) else [listed]:
        call = item if isinstance(item, ast.Call) else None
        name = call.func if call else item
        if not isinstance(name, ast.Name) or (call and call.args):
            raise _unreadable(text)
        yield name.id, {k.arg or "**": _value(k.value, text) for k in (call.keywords if call else ())}


def _value(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.Name):
        return {"true": True, "false": False, "none": None}.get(node.id.lower(), node.id)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise _unreadable(text) from None


def _unreadable(text: str) -> PassError:
    example = "fold_batch_norm,simplify_onnx(rounds=2)"
    return PassError(f"{one_line(text)!r} is no list of passes", f"Write it as in: {example}")


def _instance(cls: type[Pass[Any]], given: dict[str, Any]) -> Pass[Any]:
    fields = {f.name for f in msgspec.structs.fields(cls.Options)}
    for name in given:
        if name not in fields:
            has = f"It takes {', '.join(sorted(fields))}." if fields else "It takes no options."
            near = suggestion(name, fields)
            raise PassError(f"the pass {cls.name} has no option {one_line(name)!r}", near or has)
    try:
        return cls(msgspec.convert(given, cls.Options))
    except msgspec.ValidationError as error:
        raise PassError(
            f"the pass {cls.name} does not take that option: {one_line(str(error))}",
            "`graphaudit passes` shows the type and the default of every option.",
        ) from None
