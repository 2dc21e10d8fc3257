"""Finds the passes and checks: every module of `graphaudit.passes` and `graphaudit.rules.checks`, and entry points.

A new pass or check is a new file; nothing here or anywhere else in the engine names one. Third parties register a
`Pass` or `Check` class under the entry-point group `graphaudit.passes` or `graphaudit.checks`, and the package whose
folder holds their target files under `graphaudit.targets`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, TypeVar

from graphaudit.audit.check import Check
from graphaudit.errors import PluginError, RuleError
from graphaudit.text import one_line

if TYPE_CHECKING:
    from graphaudit.rewrite.base import Pass

T = TypeVar("T")

# What the class of a plugin has to set.
_DATA = {"Pass": ("name", "level"), "Check": ("code", "name", "severity", "remedy")}


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
        yield _plugin(entry, base)


def target_folders() -> list[Traversable]:
    """The folders of third parties' target files. Raises PluginError where one cannot be found."""
    folders = []
    for entry in entry_points(group="graphaudit.targets"):
        package = _load(entry)
        if not inspect.ismodule(package):
            raise PluginError(f"{_said(entry)} is no package", _remedy(entry))
        folders.append(resources.files(package))
    return folders


def _plugin(entry: EntryPoint, base: type[T]) -> type[T]:
    """The class that a plugin registers. Raises PluginError where it cannot be used."""
    loaded = _load(entry)
    if not (inspect.isclass(loaded) and issubclass(loaded, base)):
        raise PluginError(f"{_said(entry)} is no {base.__name__}", _remedy(entry))
    missing = [name for name in _DATA[base.__name__] if not hasattr(loaded, name)]
    missing += sorted(getattr(loaded, "__abstractmethods__", ()))
    if missing:
        raise PluginError(f"{_said(entry)} does not define {', '.join(missing)}", _remedy(entry))
    return loaded


def _load(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:  # third-party code: whatever it raises, it is named in one line
        raised = one_line(f"{type(error).__name__}: {error}")
        raise PluginError(f"{_said(entry)} raises {raised}", _remedy(entry)) from error


def _said(entry: EntryPoint) -> str:
    owner = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an installed package"
    return f"the plugin {entry.name!r} of {owner} cannot be used: {entry.value}"


def _remedy(entry: EntryPoint) -> str:
    return f"Repair or uninstall {entry.dist.name if entry.dist is not None else 'the package'}."


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
