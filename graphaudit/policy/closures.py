"""Functions that hold a module in their closure, in a copy of that module.

`copy.deepcopy` keeps functions as they are: a hook or a lambda that was made with `self` in its closure, and a compiled
method, would go on reading and writing the module that was copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import CellType, FunctionType, MethodType
from typing import Any

from torch import nn


def rebind(module: nn.Module, memo: Mapping[int, Any]) -> None:
    """Let the functions among the attributes and hooks of a deep copy refer to it, not to what it was copied from.

    `memo` is what `copy.deepcopy` was given: the copies by the id of the original.
    """
    made: dict[int, Any] = {}
    for part in module.modules():
        _rebind_items(part.__dict__, memo, made)


def _rebind_items(container: dict[Any, Any] | list[Any], memo: Mapping[int, Any], made: dict[int, Any]) -> None:
    for key, value in list(container.items() if isinstance(container, dict) else enumerate(container)):
        if isinstance(value, FunctionType | MethodType):
            bound = _rebound(value, memo, made)
            if bound is not value:
                container[key] = bound
        elif isinstance(value, dict | list) and id(value) not in made:
            made[id(value)] = value
            _rebind_items(value, memo, made)


def _rebound(value: Any, memo: Mapping[int, Any], made: dict[int, Any]) -> Any:
    """The copy of an object that was copied; a function or method with its parts rebound; or the object itself."""
    if id(value) in made:
        return made[id(value)]
    if isinstance(value, MethodType):
        owner = _rebound(value.__self__, memo, made)
        return value if owner is value.__self__ else MethodType(value.__func__, owner)
    if not isinstance(value, FunctionType):
        return memo.get(id(value), value)
    made[id(value)] = value  # a function may be in its own closure
    cells = [_cell(cell, memo, made) for cell in value.__closure__ or ()]
    defaults = tuple(_rebound(v, memo, made) for v in value.__defaults__ or ())
    attributes = {k: _rebound(v, memo, made) for k, v in vars(value).items()}
    before = (*(value.__closure__ or ()), *(value.__defaults__ or ()), *vars(value).values())
    if all(new is old for new, old in zip((*cells, *defaults, *attributes.values()), before, strict=True)):
        return value
    function = FunctionType(
        value.__code__, value.__globals__, value.__name__, defaults or None, tuple(cells) if value.__closure__ else None
    )
    function.__kwdefaults__ = value.__kwdefaults__
    function.__qualname__ = value.__qualname__
    function.__dict__.update(attributes)
    made[id(value)] = function
    return function


def _cell(cell: CellType, memo: Mapping[int, Any], made: dict[int, Any]) -> CellType:
    """The cell, or one for all functions that share it, with what its contents became."""
    if id(cell) not in made:
        try:
            contents = cell.cell_contents
        except ValueError:  # not filled yet
            return cell
        bound = _rebound(contents, memo, made)
        made[id(cell)] = cell if bound is contents else CellType(bound)
    return made[id(cell)]  # type: ignore[no-any-return]
