"""What transpiled code needs around functions and variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from malt.operators.variables import Undefined, UndefinedReturnValue

from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.select import select

_ARTIFACT = "_graphaudit_transpiled"


class FunctionScope:
    """Surrounds the body of a transpiled function."""

    def __init__(self, function_name: str, scope_name: str, options: Any) -> None:
        self.name = function_name
        del scope_name, options

    def __enter__(self) -> FunctionScope:
        return self

    def __exit__(self, *_: Any) -> None:
        return None

    def ret(self, value: Any, did_return: Any) -> Any:
        """The value of the function: None where no `return` was reached."""
        if isinstance(value, UndefinedReturnValue):
            return None
        return select(did_return, value, None) if isinstance(did_return, Number) else value


def with_function_scope(thunk: Callable[[FunctionScope], Any], scope_name: str, options: Any) -> Any:
    """The body of a transpiled lambda."""
    with FunctionScope("lambda", scope_name, options) as scope:
        return thunk(scope)


def transpiled(function: Any) -> Any:
    """Mark a function that is transpiled already: it was defined inside another."""
    setattr(function, _ARTIFACT, True)
    return function


def is_transpiled(function: Any) -> bool:
    """Whether a function was marked so."""
    return getattr(function, _ARTIFACT, False) is True


def ld(value: Any) -> Any:
    """Read a variable. Raises UnboundLocalError where it has no value yet."""
    return value.read() if isinstance(value, Undefined) else value


def ldu(load: Callable[[], Any], name: str) -> Any:
    """Read what may not be there."""
    try:
        return load()
    except (KeyError, AttributeError, NameError):
        return Undefined(name)
