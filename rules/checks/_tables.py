"""What Python containers are indexed with the value of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphaudit.findings import Place
from graphaudit.rules.checks._numbers import readers
from graphaudit.rules.checks._source import MISSING, Function

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


@dataclass(frozen=True)
class Lookup:
    """`table[index]`, where the index was a tensor and the table is a Python object (`text` is its source)."""

    place: Place
    text: str
    table: Any


def lookups(subject: Subject) -> Iterator[Lookup]:
    """Every subscript of a Python container with a number that came out of a tensor."""
    seen: set[Place] = set()
    for function, number, _ in readers(subject, "item", "tolist"):
        for node in ast.walk(function.tree):
            if isinstance(node, ast.Subscript) and any(n is number for n in ast.walk(node.slice)):
                place = function.place(node)
                table = _table(function, node.value)
                if table is not MISSING and place not in seen:
                    seen.add(place)
                    yield Lookup(place, ast.unparse(node.value), table)


def holds_modules(table: Any) -> bool:
    """Whether a container holds modules."""
    from torch import nn

    if isinstance(table, nn.Module):
        return True
    return any(isinstance(v, nn.Module) for v in (table.values() if isinstance(table, dict) else table))


def _table(function: Function, node: ast.AST) -> Any:
    """The container itself, or an empty one of its kind for a literal; MISSING for everything else."""
    import torch
    from torch import nn

    if isinstance(node, ast.List | ast.Tuple):
        return []
    if isinstance(node, ast.Dict):
        return {}
    value = function.resolve(node)
    modules = nn.ModuleList | nn.ModuleDict | nn.Sequential
    known = isinstance(value, modules | list | tuple | dict) and not isinstance(value, torch.Size)
    return value if known else MISSING
