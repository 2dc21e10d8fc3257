"""Every call in transpiled code: functions of the user's are transpiled too, Python's own get twins on tensors."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, BuiltinMethodType, FunctionType, MethodType
from typing import Any

import torch
from torch._higher_order_ops.while_loop import while_loop

from graphaudit.capture.control_flow import conversions, loops
from graphaudit.capture.control_flow.branches import condition, predicate
from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.scopes import is_transpiled
from graphaudit.capture.control_flow.session import current
from graphaudit.capture.control_flow.tables import Choice
from graphaudit.capture.control_flow.transpile import NotTranspiled, transpile
from graphaudit.graphs.places import is_engine

_OWN = ((builtins, "max", max), (builtins, "min", min), (math, "pow", math.pow))
_METHODS: dict[str, Callable[..., Any]] = {
    "item": Number.of,
    "tolist": conversions.tolist,
    "__bool__": lambda t: conversions.BUILTINS[bool](t),
    "__int__": lambda t: conversions.BUILTINS[int](t),
    "__float__": lambda t: conversions.BUILTINS[float](t),
    "is_nonzero": lambda t: conversions.BUILTINS[bool](t),
}


def _cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    test = condition(pred)
    if isinstance(test, bool):
        return true_fn(*operands) if test else false_fn(*operands)
    return predicate(test, lambda: true_fn(*operands), lambda: false_fn(*operands))


# torch's own structured control flow, which torch.export would trace apart from the rest.
_STRUCTURED: dict[Any, Callable[..., Any]] = {torch.cond: _cond, while_loop: loops.while_loop}


def converted_call(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, scope: Any = None) -> Any:
    """`function(*args, **kwargs)`."""
    del scope
    kwargs = kwargs or {}
    function = _own(function)
    if isinstance(function, functools.partial):
        return converted_call(function.func, (*function.args, *args), {**function.keywords, **kwargs})
    if isinstance(function, Choice):
        return function.call(lambda item: converted_call(item, args, kwargs))
    structured = _STRUCTURED.get(function) if isinstance(function, FunctionType) else None
    if structured is not None:
        converted = [convert(a) if isinstance(a, FunctionType) else a for a in args]
        return structured(*converted, **{k: convert(v) for k, v in kwargs.items()})
    twin = _twin(function, args, kwargs)
    if twin is not None:
        return twin(*args, **kwargs)
    return convert(function)(*args, **kwargs)


def _own(function: Any) -> Any:
    """Python's own function behind what torch.export puts in its place while it traces (non_strict_utils.py)."""
    for module, name, original in _OWN:
        if function is getattr(module, name):
            return original
    return function


def convert(function: Any) -> Any:
    """The function as the capture runs it: transpiled, if it is written in Python and is not an engine's."""
    if isinstance(function, MethodType):
        inner = convert(function.__func__)
        return function if inner is function.__func__ else MethodType(inner, function.__self__)
    if not isinstance(function, FunctionType) or is_transpiled(function):
        return function
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None and "/torch/" in function.__code__.co_filename:
        return convert(wrapped)  # no_grad and its kin: the whole capture runs without gradients
    if is_engine(function.__code__.co_filename) or inspect.isgeneratorfunction(function):
        return function
    try:
        made = transpile(function)
    except NotTranspiled:
        return function  # it runs as it is; a decision on a tensor in it ends the capture
    current().globals[id(function.__globals__)] = function.__globals__
    return made


def _twin(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[..., Any] | None:
    """What to call in place of a function of Python's or torch's that would ask a tensor for its value."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.Tensor) and isinstance(function, BuiltinMethodType | BuiltinFunctionType | MethodType):
        method = _METHODS.get(function.__name__)
        if method is not None:
            return lambda: method(owner)
    try:
        twin = conversions.BUILTINS.get(function) or conversions.MATH.get(function)
        rebuilds = function in (torch.tensor, torch.as_tensor)
    except TypeError:  # not hashable
        return None
    if function is range and conversions.has_data(args):
        return loops.DataRange
    if twin is not None and (function in conversions.ITERATING or conversions.has_data((args, kwargs))):
        return twin
    if rebuilds and conversions.has_data(args):
        return lambda *given, **named: conversions.call_with_numbers(function, given, named)
    return None
