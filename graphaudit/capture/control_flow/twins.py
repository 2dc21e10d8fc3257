"""What runs in place of a function of Python's, torch's or NumPy's that would ask a tensor for its value."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, BuiltinMethodType, MethodType
from typing import Any

import torch

from graphaudit.capture.control_flow import (
    arrays,
    comparisons,
    conversions,
    entries,
    foreign,
    loops,
    packed,
    reductions,
    tables,
    texts,
    varying,
)
from graphaudit.capture.control_flow.numbers import Number

Twin = Callable[..., Any]

_OF_TENSORS: dict[str, Twin] = {
    "item": Number.of,
    "tolist": conversions.tolist,
    "__bool__": lambda t: conversions.BUILTINS[bool](t),
    "__int__": lambda t: conversions.BUILTINS[int](t),
    "__float__": lambda t: conversions.BUILTINS[float](t),
    "is_nonzero": lambda t: conversions.BUILTINS[bool](t),
    "numpy": arrays.array_of,
}
# Their argument may be a generator, which cannot be looked into; on plain data they do what Python's do.
_OF_SEQUENCES: dict[Any, Twin] = {
    builtins.any: reductions.any_of,
    builtins.all: reductions.all_of,
    builtins.sum: reductions.total,
    builtins.max: reductions.extreme(True),
    builtins.min: reductions.extreme(False),
    builtins.sorted: comparisons.ordered,
    builtins.len: entries.length,
}
_TEXTS = {
    builtins.str: texts.shown,
    builtins.repr: texts.shown,
    builtins.ascii: texts.shown,
    builtins.format: texts.shown,
}
_OPEN_LISTS = {builtins.list, builtins.reversed, builtins.isinstance, builtins.bool, builtins.print, builtins.id}
_OPEN_METHODS = ("append", "extend", "copy", "clear", "reverse")
_BY_NAME = (builtins.getattr, builtins.hasattr, builtins.setattr, builtins.int, builtins.float)


def twin_of(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Twin | None:
    """What to call with the same arguments; None where the function itself will do. Raises Refused."""
    try:
        hash(function)
    except TypeError:
        return None
    drawn = foreign.twin(function)
    if drawn is not None:
        return drawn
    over_packed = packed.twin_of(function, args, kwargs)
    if over_packed is not None:
        return over_packed
    owner = getattr(function, "__self__", None)
    if isinstance(function, BuiltinMethodType | BuiltinFunctionType | MethodType) and owner is not None:
        found = _of_method(function.__name__, owner, args)
        if found is not None:
            return found
    over_varying = varying.twin_of(function, args)
    if over_varying is not None:
        return over_varying
    if function in _OF_SEQUENCES:
        return _OF_SEQUENCES[function]
    if any(entries.is_open(a) for a in args) and isinstance(function, type | BuiltinFunctionType):
        if function not in _OPEN_LISTS:
            raise entries.refusal(f"{getattr(function, '__name__', function)}() is called with a list")
        return conversions.BUILTINS[bool] if function is bool else None
    if function in _BY_NAME and any(isinstance(a, texts.Text) for a in args):
        raise texts.refusal()
    return _of_data(function) if conversions.has_data((args, kwargs)) else None


def _of_data(function: Any) -> Twin | None:
    """Of a function that is called with a tensor or a number out of one."""
    if function is range:
        return loops.DataRange
    if function in (torch.tensor, torch.as_tensor, torch.from_numpy):
        call = torch.as_tensor if function is torch.from_numpy else function
        return lambda *given, **named: conversions.call_with_numbers(call, given, named)
    found = conversions.BUILTINS.get(function) or conversions.MATH.get(function) or _TEXTS.get(function)
    return found or arrays.function_of(function)


def _of_method(name: str, owner: Any, args: tuple[Any, ...]) -> Twin | None:
    if isinstance(owner, torch.Tensor) and name in _OF_TENSORS:
        return functools.partial(_OF_TENSORS[name], owner)
    if isinstance(owner, arrays.Array) and name == "astype":
        return functools.partial(arrays.astype, owner)
    if isinstance(owner, str) and name == "format" and conversions.has_data(args):
        return texts.shown
    if isinstance(owner, Mapping) and name == "get" and args and isinstance(args[0], Number | torch.Tensor):
        return functools.partial(tables.get_or, owner)
    if entries.is_open(owner) and name not in _OPEN_METHODS:
        raise entries.refusal(f"{name}() of a list")
    if isinstance(owner, list) and name == "sort" and conversions.has_data(owner):
        return functools.partial(_sort, owner)
    return None


def _sort(items: list[Any], **options: Any) -> None:
    items[:] = comparisons.ordered(items, **options)
