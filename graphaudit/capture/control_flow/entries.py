"""Lists whose length a tensor decides: entries that are there on some paths only, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.refusal import Refused


class Maybe:
    """An entry of a list that is there where `present` holds."""

    def __init__(self, present: Number, value: Any) -> None:
        self.present = present
        self.value = value

    @classmethod
    def __torch_function__(cls, *_: Any) -> Any:
        raise refusal("a tensor is made of a list")

    def __hash__(self) -> int:
        raise refusal("a set or dict is made of a list")


def refusal(what: str) -> Refused:
    """What cannot be done with such a list."""
    return Refused(f"{what} whose length a tensor decides", "list-length-differs")


def is_open(value: Any) -> bool:
    """Whether `value` is a list or tuple with such entries."""
    return isinstance(value, list | tuple) and any(isinstance(v, Maybe) for v in value)


def merged(condition: Number, taken: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    """What two sides of a branch leave of one list: what they share, then what each has added."""
    from graphaudit.capture.control_flow.select import negated

    shared = next((i for i, (a, b) in enumerate(zip(taken, other)) if a is not b), min(len(taken), len(other)))
    result = list(taken[:shared])
    for held, items in ((condition, taken[shared:]), (negated(condition), other[shared:])):
        result += [Maybe(_both(held, item), _value(item)) for item in items]
    return result


def filtered(items: Any, test: Callable[[Any], Any], value: Callable[[Any], Any], as_list: bool) -> Any:
    """`[value(item) for item in items if test(item)]`, or a generator of it."""
    from graphaudit.capture.control_flow.rows import LOOP
    from graphaudit.capture.control_flow.varying import Varying

    if Varying.of(items) is not None:
        raise Refused("which rows of a dimension that varies a comprehension keeps is decided row by row", LOOP)
    entries = _entries(items, test, value)
    return list(entries) if as_list else entries


def _entries(items: Any, test: Callable[[Any], Any], value: Callable[[Any], Any]) -> Iterator[Any]:
    from graphaudit.capture.control_flow.branches import condition, decides_on_data, only_where

    for item in items:
        given = _value(item)

        def tested(v: Any = given) -> Any:
            return test(v)

        def valued(v: Any = given) -> Any:
            return value(v)

        held = only_where(item.present, tested) if isinstance(item, Maybe) else tested()
        if decides_on_data(held):
            held = _both(condition(held), item)
        elif not held:
            continue
        elif isinstance(item, Maybe):
            held = item.present
        if isinstance(held, Number):
            yield Maybe(held, only_where(held, valued))
        else:
            yield valued()


def length(value: Any) -> Any:
    """`len(value)`."""
    if isinstance(value, torch.Tensor) and value.dim():
        return value.shape[0]
    if not is_open(value):
        return len(value)
    total: Any = sum(1 for v in value if not isinstance(v, Maybe))
    low = total
    for entry in value:
        if isinstance(entry, Maybe):
            total = total + entry.present
    total.low, total.high = low, len(value)
    return total


def is_filled(value: Sequence[Any]) -> Any:
    """`bool(value)`."""
    from graphaudit.capture.control_flow.branches import or_

    found: Any = False
    for entry in value:
        there = entry.present if isinstance(entry, Maybe) else True
        found = or_(partial(itself, found), partial(itself, there))
    return found


def element(value: Sequence[Any], index: Any) -> Any:
    """`value[0]` or `value[-1]`. Raises Refused for any other index."""
    from graphaudit.capture.control_flow.branches import not_
    from graphaudit.capture.control_flow.errors import raises
    from graphaudit.capture.control_flow.select import select

    if index not in (0, -1):
        raise refusal("an entry in the middle is read of a list")
    entries = list(value) if index == -1 else list(reversed(value))
    chosen: Any = _value(entries[0])
    for entry in entries[1:]:
        chosen = select(entry.present, entry.value, chosen) if isinstance(entry, Maybe) else entry
    filled = is_filled(value)
    if isinstance(filled, Number):
        raises(not_(filled), "IndexError")
    return chosen


def fold(items: Iterable[Any], start: Any, step: Callable[[Any, Any], Any], stop: Any = None) -> Any:
    """`step(step(start, first), second) …` over the entries that are there; ends where the result is `stop`."""
    from graphaudit.capture.control_flow.branches import only_where
    from graphaudit.capture.control_flow.select import select

    result = start
    for item in items:
        if isinstance(item, Maybe):

            def stepped(r: Any = result, v: Any = item.value) -> Any:
                return step(r, v)

            following = only_where(item.present, stepped)
            result = select(item.present, following, result)
        else:
            result = step(result, item)
        if stop is not None and result is stop:
            break
    return result


def itself(value: Any) -> Any:
    """The value."""
    return value


def _value(item: Any) -> Any:
    return item.value if isinstance(item, Maybe) else item


def _both(held: Number, item: Any) -> Number:
    from graphaudit.capture.control_flow.branches import both

    result: Number = both(held, item.present) if isinstance(item, Maybe) else held
    return result
