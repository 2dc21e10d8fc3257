"""Finds the passes and checks: every module of `graphaudit.passes` and `graphaudit.rules.checks`, and entry points.

A new pass or check is a new file; nothing here or anywhere else in the engine names one. Third parties register a
`Pass` or `Check` class under the entry-point group `graphaudit.passes` or `graphaudit.checks`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, TypeVar

from graphaudit.audit.check import Check
from graphaudit.errors import RuleError

if TYPE_CHECKING:
    from graphaudit.rewrite.base import Pass

T = TypeVar("T")


@cache
def checks() -> dict[str, type[Check]]:
    """All checks by name, in the order of their codes. Imports nothing heavy."""
    # mypy: Check is abstract and only its concrete subclasses come back. So below.
    found = sorted(
        _discover("graphaudit.rules.checks", "graphaudit.checks", Check),  # type: ignore[type-abstract]
        key=lambda c: c.code,
    )
    return _by_name(found)


@cache
def passes() -> dict[str, type[Pass[Any]]]:
    """All passes by name. Imports torch."""
    from graphaudit.rewrite.base import Pass

    found: list[type[Pass[Any]]] = sorted(
        _discover("graphaudit.passes", "graphaudit.passes", Pass),  # type: ignore[type-abstract]
        key=lambda p: p.name,
    )
    return _by_name(found)


def find_check(code_or_name: str) -> type[Check] | None:
    """The check with that code (`GA301`, in any case) or name (`naive-softmax`)."""
    wanted = code_or_name.strip()
    return next((c for c in checks().values() if wanted.upper() == c.code or wanted.lower() == c.name), None)


def _discover(package: str, group: str, base: type[T]) -> Iterator[type[T]]:
    path = importlib.import_module(package).__path__
    for info in pkgutil.iter_modules(path):
        if not info.name.startswith("_"):
            module = importlib.import_module(f"{package}.{info.name}")
            yield from (c for c in _classes(module, base) if c.__module__ == module.__name__)
    for entry in entry_points(group=group):
        yield entry.load()


def _classes(module: object, base: type[T]) -> Iterator[type[T]]:
    for _, value in inspect.getmembers(module, inspect.isclass):
        if issubclass(value, base) and value is not base and not inspect.isabstract(value):
            yield value


def _by_name(classes: list[type[T]]) -> dict[str, type[T]]:
    named: dict[str, type[T]] = {}
    for cls in classes:
        name: str = cls.name  # type: ignore[attr-defined]
        if name in named:
            both = f"{named[name].__module__} and {cls.__module__}"
            raise RuleError(f"{both} both define {name!r}", "Rename one of them.")
        named[name] = cls
    return named
