"""`raise` and `assert` where a tensor decides: a guard output, because a graph does not raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from malt.operators.variables import UndefinedReturnValue

from graphaudit.capture.control_flow.alternatives import Either
from graphaudit.capture.control_flow.branches import condition, decides_on_data
from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.refusal import Refused, user_place
from graphaudit.capture.control_flow.select import negated
from graphaudit.capture.control_flow.session import Guard, current


def raised(error: Callable[[], Any]) -> Any:
    """`raise error`. On a path that a tensor decides on, what follows is as after a `return` without a value."""
    if current().mask is None:
        raise error()
    raises(None, " or ".join(_kinds(error())))
    return UndefinedReturnValue()


def _kinds(error: Any) -> list[str]:
    if isinstance(error, Either):
        return [*_kinds(error.taken), *_kinds(error.other)]
    return [error.__name__ if isinstance(error, type) else type(error).__name__]


def assert_stmt(test: Any, message: Callable[[], Any]) -> None:
    """`assert test`: Python's own where Python decides, a guard where a tensor does."""
    if decides_on_data(test):
        raises(negated(condition(test)), "AssertionError")
    elif not condition(test):
        if current().mask is None:
            raise AssertionError(message())
        raises(None, "AssertionError")


def raises(held: Number | None, error: str) -> None:
    """The policy raises `error` where `held` is true (None: always) in the present region."""
    session = current()
    if session.attempts:
        raise Refused(f"a try around this line catches the {error} that a tensor's value raises", "caught-error")
    fires = session.mask
    if held is not None:
        fires = held.tensor if fires is None else torch.logical_and(fires, held.tensor)
    assert fires is not None
    session.guards.append(Guard(fires, user_place(), error=error))


@contextmanager
def attempt() -> Iterator[None]:
    """The body of a `try` whose handlers may catch what data raises."""
    session = current()
    session.attempts += 1
    try:
        yield
    finally:
        session.attempts -= 1
