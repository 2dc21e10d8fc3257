"""What changed from one target file to another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from graphaudit.errors import RuleError
from graphaudit.rulebook.rulebook import read_target_file, target_file
from graphaudit.rulebook.schema import TargetFile


class Change(msgspec.Struct, kw_only=True):
    """One fact that came, went or changed. `where` is its path in the file: `ops.MatMul.engines.AI Core`."""

    kind: Literal["added", "removed", "changed"]
    where: str
    old: Any = None
    new: Any = None


def compare(old: str, new: str) -> list[Change]:
    """The changes from `old` to `new`, each the name of a target or the path of a target file, inheritance included.

    Raises RuleError for a file that is not valid, TargetError for a name that is none, OSError.
    """
    return list(_changes(_facts(old), _facts(new), ()))


def _facts(name: str) -> dict[str, Any]:
    file = _read(name)
    facts: dict[str, Any] = msgspec.to_builtins(file)
    for about in ("name", "summary", "extends"):
        facts.pop(about)
    return facts


def _read(name: str) -> TargetFile:
    if not name.endswith(".json"):
        return target_file(name)
    path = Path(name)
    if path.is_dir():
        raise RuleError(f"{name} is a folder", "Name a target or a target file.")
    return read_target_file(path.read_bytes(), name)


def _changes(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[Change]:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        if old != new:
            yield Change(kind="changed", where=".".join(path), old=old, new=new)
        return
    for key in sorted(old.keys() | new.keys()):
        where = (*path, key)
        if key not in new:
            yield Change(kind="removed", where=".".join(where), old=old[key])
        elif key not in old:
            yield Change(kind="added", where=".".join(where), new=new[key])
        else:
            yield from _changes(old[key], new[key], where)
