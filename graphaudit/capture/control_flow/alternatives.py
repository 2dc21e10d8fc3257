"""A value that is one of two Python objects by the path taken: None or a tensor, one of two strings."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import torch
from malt.operators.variables import UndefinedReturnValue

from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.refusal import Refused


class Either:
    """`taken` where `condition` holds, else `other`, which no tensor can be. What is done with it is done with both.

    Where Python raises for one of them, None in most cases, a guard says so. `refusal` is raised where one is needed.
    """

    def __init__(self, condition: Number, taken: Any, other: Any) -> None:
        self.condition = condition
        self.taken = taken
        self.other = other
        self.kinds = f"{described(taken)} and {described(other)}"
        self.refusal = Refused(
            f"the two sides of a branch give {self.kinds}, which no tensor can be", "branch-types-differ"
        )

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        return lifted(func, args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lifted(getattr, (self, name), {})

    def _refuse(self, *_: Any) -> Any:
        raise self.refusal

    __bool__ = __index__ = __int__ = __float__ = __hash__ = __iter__ = __len__ = __format__ = _refuse


def holds_either(args: Sequence[Any], kwargs: Any = None) -> bool:
    """Whether one of the arguments is such a value."""
    return any(isinstance(a, Either) for a in (*args, *(kwargs or {}).values()))


def lifted(call: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> Any:
    """`call(*args, **kwargs)` for each of the two values that an argument may have."""
    from graphaudit.capture.control_flow.branches import predicate

    either = next((a for a in (*args, *kwargs.values()) if isinstance(a, Either)), None)
    if either is None:
        return _called(call, args, kwargs)

    def one_of(value: Any) -> Any:
        given = [value if a is either else a for a in args]
        return lifted(call, given, {k: value if a is either else a for k, a in kwargs.items()})

    known = settled(either)
    if not isinstance(known, Either):
        return one_of(known)
    return predicate(either.condition, lambda: one_of(either.taken), lambda: one_of(either.other))


def _called(call: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> Any:
    from graphaudit.capture.control_flow.errors import raises

    try:
        return call(*args, **kwargs)
    except (TypeError, AttributeError) as error:
        if not any(a is None for a in (*args, *kwargs.values())):
            raise
        raises(None, type(error).__name__)
        return UndefinedReturnValue()


def settled(value: Any) -> Any:
    """The one of two values that the present region knows it to be, where it knows."""
    from graphaudit.capture.control_flow.session import current

    while isinstance(value, Either):
        known = current().known(value.condition)
        if known is None:
            return value
        value = value.taken if known else value.other
    return value


def is_(left: Any, right: Any) -> Any:
    """`left is right`."""
    from graphaudit.capture.control_flow.select import negated, select

    left, right = settled(left), settled(right)
    if not isinstance(left, Either):
        left, right = right, left
    if isinstance(left, bool) and isinstance(right, Number):
        left, right = right, left
    if isinstance(left, Number) and left.kind is bool and isinstance(right, bool):
        return left if right else negated(left)
    if not isinstance(left, Either):
        return left is right
    return select(left.condition, is_(left.taken, right), is_(left.other, right))


def is_not(left: Any, right: Any) -> Any:
    """`left is not right`."""
    from graphaudit.capture.control_flow.branches import not_

    return not_(is_(left, right))


def described(value: Any) -> str:
    """A value, or what kind of value it is."""
    if isinstance(value, Number):
        return f"a {value.kind.__name__}"
    if isinstance(value, Either):
        return f"{described(value.taken)} or {described(value.other)}"
    if isinstance(value, torch.Tensor):
        return "a tensor"
    return (
        repr(value)
        if isinstance(value, str | bytes | Enum | bool | int | float | None)
        else f"a {type(value).__name__}"
    )


def _binary(function: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return (
        lambda left, right: lifted(function, (left, right), {}),
        lambda right, left: lifted(function, (left, right), {}),
    )


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor"):
    _forward, _backward = _binary(getattr(operator, _name))
    setattr(Either, f"__{_name.strip('_')}__", _forward)
    setattr(Either, f"__r{_name.strip('_')}__", _backward)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Either, f"__{_name}__", _binary(getattr(operator, _name))[0])
for _name in ("neg", "pos", "abs", "invert"):
    _function = getattr(operator, _name)
    setattr(Either, f"__{_name}__", lambda value, _function=_function: lifted(_function, (value,), {}))
