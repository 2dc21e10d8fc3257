"""Every call in transpiled code: functions of the user's are transpiled too, Python's own get twins on tensors."""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop
from torch.utils import _pytree as pytree

from graphaudit.capture.control_flow import loops
from graphaudit.capture.control_flow.alternatives import Either, holds_either, lifted
from graphaudit.capture.control_flow.branches import condition, predicate
from graphaudit.capture.control_flow.carried import Carried, Dependent
from graphaudit.capture.control_flow.classes import adopt
from graphaudit.capture.control_flow.scopes import is_transpiled
from graphaudit.capture.control_flow.session import current
from graphaudit.capture.control_flow.tables import Choice
from graphaudit.capture.control_flow.transpile import NotTranspiled, transpile
from graphaudit.capture.control_flow.twins import twin_of
from graphaudit.graphs.places import is_engine

_OWN = ((builtins, "max", max), (builtins, "min", min), (math, "pow", math.pow))


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
    if _reads_carried(args, kwargs) and function not in _REDUCING:
        raise Dependent
    if isinstance(function, functools.partial):
        return converted_call(function.func, (*function.args, *args), {**function.keywords, **kwargs})
    if isinstance(function, Choice):
        return function.call(lambda item: converted_call(item, args, kwargs))
    structured = _STRUCTURED.get(function) if isinstance(function, FunctionType) else None
    if structured is not None:
        converted = [convert(a) if isinstance(a, FunctionType) else a for a in args]
        return structured(*converted, **{k: convert(v) for k, v in kwargs.items()})
    if isinstance(function, Either) or (holds_either(args, kwargs) and not _is_users(function)):
        return (
            lifted(converted_call, (function, args, kwargs), {})
            if isinstance(function, Either)
            else lifted(lambda *given, **named: converted_call(function, given, named), args, kwargs)
        )
    if isinstance(function, type):
        adopt(function, current())
    elif not isinstance(function, FunctionType | MethodType | BuiltinFunctionType):
        adopt(type(function), current())
    if not _is_users(function):
        args, kwargs = tuple(map(_argument, args)), {k: _argument(v) for k, v in kwargs.items()}
    twin = twin_of(function, args, kwargs)
    if twin is not None:
        return twin(*args, **kwargs)
    if not (_is_users(function) or isinstance(function, nn.Module)):
        return function(*args, **kwargs)
    with current().deeper():
        return convert(function)(*args, **kwargs)


def _is_users(function: Any) -> bool:
    """Whether a function is written in Python, and not an engine's."""
    inner = function.__func__ if isinstance(function, MethodType) else function
    file = inner.__code__.co_filename if isinstance(inner, FunctionType) else ""
    return bool(file) and (file.startswith("<") or not is_engine(file))


def _argument(value: Any) -> Any:
    """A function of the user's, given to `map`, `sorted` or `torch.vmap`, is called from there."""
    return convert(value) if isinstance(value, FunctionType | MethodType) else value


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
    session = current()
    if function.__code__.co_filename.startswith("<"):
        session.left_alone[function.__code__] = "its source is in no file", 0
    if is_engine(function.__code__.co_filename):
        return function
    try:
        made = transpile(function)
    except NotTranspiled as error:  # it runs as it is; a decision on a tensor in it ends the capture
        session.left_alone[function.__code__] = str(error), error.line
        return function
    session.globals[id(function.__globals__)] = function.__globals__
    return made


_REDUCING = (max, min, torch.add, torch.maximum, torch.minimum)


def _reads_carried(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return current().each is not None and any(isinstance(v, Carried) for v in pytree.tree_leaves((args, dict(kwargs))))
