"""The user's own source behind a policy: the functions that forward runs, as syntax trees that know their objects.

Some defects show only there: a loop over a Python count is gone from the graph, and a shape that Python read is a
constant. What is found here is a reading of the source, so a check that uses it reports only what the objects confirm.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from graphaudit.findings import Place
from graphaudit.graphs.places import is_engine, is_library

if TYPE_CHECKING:
    from torch import nn

    from graphaudit.policy import Policy

MISSING: Any = object()


@dataclass(frozen=True)
class Function:
    """A function of the user's that forward runs. `owner` is the module it is a method of, or None."""

    code: FunctionType
    owner: nn.Module | None
    tree: ast.FunctionDef
    file: str
    imported: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The function's own name."""
        return self.tree.name

    def place(self, node: ast.AST) -> Place:
        """Where a node of the tree stands."""
        line = getattr(node, "lineno", self.tree.lineno)
        single = getattr(node, "end_lineno", None) == line
        return Place(self.file, line, getattr(node, "col_offset", None), node.end_col_offset if single else None)  # type: ignore[attr-defined]

    def covers(self, place: Place | None) -> bool:
        """Whether a place lies in this function."""
        end = self.tree.end_lineno or self.tree.lineno
        return place is not None and place.file == self.file and self.tree.lineno <= place.line <= end

    def resolve(self, node: ast.AST) -> Any:
        """The object that a name or attribute chain stands for, without running user code; MISSING if unknown."""
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.Attribute):
            return _attribute(self.resolve(node.value), node.attr)
        return MISSING

    def calls(self) -> Iterator[ast.Call]:
        """Every call in the function."""
        return (n for n in ast.walk(self.tree) if isinstance(n, ast.Call))

    def statement(self, place: Place) -> ast.stmt | None:
        """The innermost statement that covers the line of `place`."""
        around = [
            n
            for n in ast.walk(self.tree)
            if isinstance(n, ast.stmt) and n.lineno <= place.line <= (n.end_lineno or n.lineno) and n is not self.tree
        ]
        return max(around, key=lambda n: (n.lineno, -(n.end_lineno or 0), n.col_offset), default=None)

    def _name(self, name: str) -> Any:
        arguments = self.tree.args
        if self.owner is not None and arguments.args and arguments.args[0].arg == name:
            return self.owner
        if name in self.imported:
            return self.imported[name]
        free = dict(zip(self.code.__code__.co_freevars, self.code.__closure__ or ()))
        if name in free:
            try:
                return free[name].cell_contents
            except ValueError:  # a cell that is not filled yet
                return MISSING
        if name in self.code.__code__.co_varnames:
            return MISSING
        return self.code.__globals__.get(name, getattr(builtins, name, MISSING))


def functions(policy: Policy | None) -> list[Function]:
    """The user's functions that forward can reach: forward of each module, and what those call by name.

    Of torch and the standard library nothing is in; of other libraries the methods of the policy's modules are.
    """
    found: dict[Any, Function] = {}
    if policy is None or policy.exported is not None:
        return []
    for module in policy.module.modules():
        _collect(getattr(type(module), "forward", None), module, found)
    return list(found.values())


def _collect(value: Any, owner: nn.Module | None, found: dict[Any, Function]) -> None:
    value = inspect.unwrap(value) if callable(value) and not isinstance(value, type) else value
    if not isinstance(value, FunctionType) or value.__code__ in found or is_engine(value.__code__.co_filename):
        return
    tree = _definition(value.__code__.co_filename, value.__code__.co_firstlineno, value.__name__)
    if tree is None:
        return
    function = Function(value, owner, tree, value.__code__.co_filename, _imports(tree))
    found[value.__code__] = function
    for call in function.calls():
        target = function.resolve(call.func)
        if isinstance(target, MethodType):
            _collect(target.__func__, owner, found)
        elif isinstance(target, FunctionType) and _is_method(target, owner):
            _collect(target, owner, found)
        elif isinstance(target, FunctionType) and not is_library(target.__code__.co_filename):
            _collect(target, None, found)


def _is_method(function: FunctionType, owner: nn.Module | None) -> bool:
    return owner is not None and any(v is function for cls in type(owner).__mro__ for v in vars(cls).values())


def _attribute(owner: Any, name: str) -> Any:
    """`getattr` that runs no property and no `__getattr__` of the user's."""
    if owner is MISSING:
        return MISSING
    if isinstance(owner, ModuleType):
        return getattr(owner, name, MISSING)
    own = getattr(owner, "__dict__", {})
    for table in (own, own.get("_modules", {}), own.get("_buffers", {}), own.get("_parameters", {})):
        if name in table:
            return table[name]
    cls = owner if isinstance(owner, type) else type(owner)
    value = next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), MISSING)
    return value.__func__ if isinstance(value, staticmethod | classmethod) else value


def _imports(tree: ast.FunctionDef) -> dict[str, Any]:
    """Names that the function imports inside its body."""
    names: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = sys.modules.get(alias.name if alias.asname else alias.name.partition(".")[0], MISSING)
                names[alias.asname or alias.name.partition(".")[0]] = module
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = sys.modules.get(node.module or "", MISSING)
            for alias in node.names:
                names[alias.asname or alias.name] = _attribute(module, alias.name)
    return names


def _definition(file: str, line: int, name: str) -> ast.FunctionDef | None:
    """The definition of a function; `line` is its first line, decorators included."""
    return _definitions(file).get((name, line))


@cache
def _definitions(file: str) -> dict[tuple[str, int], ast.FunctionDef]:
    """Every function of a file by its name and first line; none where the file cannot be read or parsed."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    found = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))
    return {(n.name, min([n.lineno, *(d.lineno for d in n.decorator_list)])): n for n in found}
