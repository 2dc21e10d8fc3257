"""Python's comparisons of sequences, and orders by them, where a tensor's value is inside."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from graphaudit.capture.control_flow.alternatives import holds_either, lifted
from graphaudit.capture.control_flow.branches import condition, not_, or_
from graphaudit.capture.control_flow.conversions import has_data
from graphaudit.capture.control_flow.entries import Maybe, is_open, itself, refusal
from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.select import select

_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compared(symbol: str) -> Callable[[Any, Any], Any]:
    """`left symbol right` for sequences, which Python compares entry by entry."""
    return lambda left, right: _compare(symbol, left, right)


def _compare(symbol: str, left: Any, right: Any) -> Any:
    if holds_either((left, right)):
        return lifted(compared(symbol), (left, right), {})
    sequences = isinstance(left, list | tuple) and isinstance(right, list | tuple) and type(left) is type(right)
    if not sequences or not has_data((left, right)):
        return _ORDERS[symbol](left, right)
    if symbol in ("==", "!="):
        same = _same(left, right)
        return same if symbol == "==" else not_(same)
    result: Any = _ORDERS[symbol](len(left), len(right))
    for a, b in reversed(list(zip(left, right))):
        equal = _truth(_compare("==", a, b))
        result = _choice(equal, result, _truth(_compare(symbol, a, b)))
    return result


def _same(left: Sequence[Any], right: Sequence[Any]) -> Any:
    if len(left) != len(right):
        return False
    result: Any = True
    for a, b in zip(left, right):
        result = _choice(_truth(_compare("==", a, b)), result, False)
    return result


def contained(item: Any, container: Any) -> Any:
    """`item in container`."""
    if holds_either((item, container)):
        return lifted(contained, (item, container), {})
    if isinstance(container, range) and isinstance(item, Number):
        inside = (item >= container.start) if container.step == 1 else None
        if inside is not None:
            return _choice(_truth(inside), _truth(item < container.stop), False)
    if isinstance(container, torch.Tensor | str) or not isinstance(container, Iterable):
        return item in container
    members = list(container.keys() if isinstance(container, Mapping) else container)
    if not has_data((item, members)) and not is_open(members):
        return item in container
    found: Any = False
    for member in members:
        equal = _truth(_compare("==", item, member.value if isinstance(member, Maybe) else member))
        if isinstance(member, Maybe):
            equal = _choice(equal, member.present, False)
        found = or_(partial(itself, found), partial(itself, equal))
    return found


def not_contained(item: Any, container: Any) -> Any:
    """`item not in container`."""
    return not_(contained(item, container))


def ordered(values: Iterable[Any], /, *, key: Callable[[Any], Any] | None = None, reverse: bool = False) -> list[Any]:
    """`sorted(values)`: stable, by exchanges of neighbours. Raises Refused for a list whose length a tensor decides."""
    items = list(values)
    if is_open(items):
        raise refusal("sorted() of a list")
    pairs = [(key(item) if key is not None else item, item) for item in items]
    if not has_data([k for k, _ in pairs]):
        order = sorted(range(len(items)), key=lambda i: pairs[i][0], reverse=reverse)
        return [items[i] for i in order]
    if key is None and all(isinstance(item, torch.Tensor) and item.dim() == 0 for item in items):
        return list(torch.sort(torch.stack(items), descending=reverse, stable=True).values.unbind(0))
    for last in range(len(pairs) - 1, 0, -1):
        for i in range(last):
            (a, first), (b, second) = pairs[i], pairs[i + 1]
            swap = condition(_compare("<", a, b) if reverse else _compare("<", b, a))
            pairs[i] = (_choice(swap, b, a), _choice(swap, second, first))
            pairs[i + 1] = (_choice(swap, a, b), _choice(swap, first, second))
    return [item for _, item in pairs]


def _choice(held: Any, taken: Any, other: Any) -> Any:
    return select(held, taken, other) if isinstance(held, Number) else (taken if held else other)


def _truth(value: Any) -> Any:
    return condition(value)
