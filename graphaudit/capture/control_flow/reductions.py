"""Python's functions over sequences, where a tensor decides: `sum`, `any`, `all`, `max`, `min`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import Any

import torch

from graphaudit.capture.control_flow import numbers
from graphaudit.capture.control_flow.branches import and_, condition, not_, or_
from graphaudit.capture.control_flow.entries import Maybe, fold, itself
from graphaudit.capture.control_flow.errors import raises
from graphaudit.capture.control_flow.numbers import Number, is_scalar
from graphaudit.capture.control_flow.select import select
from graphaudit.capture.control_flow.sizes import is_size

_NOTHING = object()


def total(values: Iterable[Any], /, start: Any = 0) -> Any:
    """`sum(values, start)`."""
    return fold(values, start, lambda so_far, value: so_far + value)


def any_of(values: Iterable[Any]) -> Any:
    """`any(values)`."""
    return fold(values, False, lambda found, value: or_(lambda: found, lambda: _truth(value)), stop=True)


def all_of(values: Iterable[Any]) -> Any:
    """`all(values)`."""
    return fold(values, True, lambda held, value: and_(lambda: held, lambda: _truth(value)), stop=False)


def extreme(largest: bool) -> Callable[..., Any]:
    """Python's `max` or `min`: the first of equal ones, and what a NaN compares as."""

    def function(*args: Any, key: Callable[[Any], Any] | None = None, default: Any = _NOTHING) -> Any:
        rank = key if key is not None else itself
        items = list(args[0] if len(args) == 1 else args)
        if key is None and any(map(is_size, items)) and all(is_size(v) or isinstance(v, int) for v in items):
            return reduce(torch.sym_max if largest else torch.sym_min, items)
        best: tuple[Any, Any] | None = None
        there: Any = False
        for item in items:
            value, present = (item.value, item.present) if isinstance(item, Maybe) else (item, True)
            ranked = rank(value)
            if best is None:
                best, there = (value, ranked), present
                continue
            wins = ranked > best[1] if largest else ranked < best[1]
            if there is True and present is True:
                best = _better(largest, wins, (value, ranked), best)
                continue
            taken = _all_true(present, or_(partial(not_, there), partial(_truth, wins)))
            best = _choice(taken, value, best[0]), _choice(taken, ranked, best[1])
            there = or_(partial(itself, there), partial(itself, present))
        return _found(largest, best, there, default)

    return function


def _found(largest: bool, best: tuple[Any, Any] | None, there: Any, default: Any) -> Any:
    if best is None:
        original: Callable[..., Any] = max if largest else min
        return original([]) if default is _NOTHING else default
    if there is True:
        return best[0]
    if default is not _NOTHING:
        return select(condition(there), best[0], default)
    raises(not_(there), "ValueError")
    return best[0]


def _better(largest: bool, wins: Any, new: tuple[Any, Any], old: tuple[Any, Any]) -> tuple[Any, Any]:
    if not isinstance(wins, Number | torch.Tensor):
        return new if wins else old
    held = condition(wins)
    values = select(held, new[0], old[0])
    if isinstance(values, Number) and values.kind is int and new[0] is new[1]:
        values.low, values.high = _limits(largest, old[0], new[0])
    return values, values if new[0] is new[1] and old[0] is old[1] else select(held, new[1], old[1])


def _limits(largest: bool, one: Any, other: Any) -> tuple[int | None, int | None]:
    if not is_scalar(one) or not is_scalar(other):
        return None, None
    lows = numbers.low_of(one), numbers.low_of(other)
    highs = numbers.high_of(one), numbers.high_of(other)
    pick: Callable[..., Any] = max if largest else min
    known_lows, known_highs = [v for v in lows if v is not None], [v for v in highs if v is not None]
    sure_low = known_lows if largest or len(known_lows) == 2 else []
    sure_high = known_highs if not largest or len(known_highs) == 2 else []
    return (pick(sure_low) if sure_low else None), (pick(sure_high) if sure_high else None)


def _all_true(*tests: Any) -> Any:
    held: Any = True
    for test in tests:
        held = and_(partial(itself, held), partial(itself, test))
    return held


def _choice(held: Any, taken: Any, other: Any) -> Any:
    return select(held, taken, other) if isinstance(held, Number) else (taken if held else other)


def _truth(value: Any) -> Any:
    return condition(value)
