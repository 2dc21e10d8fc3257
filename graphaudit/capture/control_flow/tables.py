"""Look-up and assignment by an index that is a tensor's value: tensors, lists and dicts of values, lists of modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from graphaudit.capture.control_flow import entries, numbers
from graphaudit.capture.control_flow.alternatives import holds_either, lifted
from graphaudit.capture.control_flow.branches import not_, predicate
from graphaudit.capture.control_flow.comparisons import contained
from graphaudit.capture.control_flow.conversions import has_number
from graphaudit.capture.control_flow.errors import raises
from graphaudit.capture.control_flow.grown import Appended
from graphaudit.capture.control_flow.indexing import is_advanced, position, set_tensor_item, tensor_item, with_numbers
from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.control_flow.rows import LOOP
from graphaudit.capture.control_flow.select import select
from graphaudit.capture.control_flow.session import current
from graphaudit.capture.control_flow.sizes import depends_on_data

_HOLDERS = nn.ModuleList | nn.Sequential | nn.ParameterList


class Choice:
    """One of several modules or functions, chosen by a tensor's value; a call runs all and selects."""

    def __init__(self, pairs: list[tuple[Number, Any]]) -> None:
        self.pairs = pairs

    def call(self, call: Callable[[Any], Any]) -> Any:
        """`call(item)` for the item chosen."""
        return _first_true([(held, partial(call, item)) for held, item in self.pairs])


def get_item(target: Any, key: Any) -> Any:
    """`target[key]`."""
    each = current().each
    if each is not None and each.owns(target, key):
        return each.item(target, key)
    if isinstance(target, list) and any(isinstance(item, Appended) for item in target):
        return _appended_item(target, key)
    if holds_either((target, key)):
        return lifted(get_item, (target, key), {})
    if entries.is_open(target):
        return entries.element(target, key)
    if isinstance(target, torch.Tensor):
        if _may_be_empty(target, key):
            return _padded(target, key)[key]
        key = with_numbers(target, key)
        return _copied(target, key) if has_number(key) else target[key]
    if isinstance(key, torch.Tensor) and isinstance(target, Mapping | Sequence | _HOLDERS):
        key = Number.of(key)
    if not isinstance(key, Number):
        return target[key]
    if isinstance(target, Mapping):
        found = contained(key, target)
        if isinstance(found, Number):
            raises(not_(found), "KeyError")
        return _choose(target.items(), key)
    if isinstance(target, Sequence | _HOLDERS):
        return _list_item(list(target), key)
    raise Refused(f"a {type(target).__name__} is indexed by a tensor's value", "python-table-lookup")


def _may_be_empty(target: torch.Tensor, key: Any) -> bool:
    """Whether a tensor decides if there is any row: on the side that is not taken there may be none."""
    return current().mask is not None and type(key) is int and depends_on_data(target.shape[0])


def _padded(target: torch.Tensor, key: int) -> torch.Tensor:
    row = torch.zeros((1, *target.shape[1:]), dtype=target.dtype)
    return torch.cat([target, row] if key >= 0 else [row, target])


def _copied(target: torch.Tensor, key: Any) -> torch.Tensor:
    result = tensor_item(target, key)
    if not is_advanced(key):
        current().aliases.read(result, target, key)
    return result


def get_or(target: Mapping[Any, Any], key: Any, default: Any = None) -> Any:
    """`target.get(key, default)`."""
    key = Number.of(key) if isinstance(key, torch.Tensor) else key
    chosen = default
    for known, item in reversed(list(target.items())):
        chosen = select(_equals(key, _comparable(known)), item, chosen)
    return chosen


def set_item(target: Any, key: Any, value: Any) -> None:
    """`target[key] = value`."""
    each = current().each
    if each is not None and each.owns(target, key):
        each.write(target, key, value)
        return
    if isinstance(target, torch.Tensor):
        key = with_numbers(target, key)
    if isinstance(target, torch.Tensor) and has_number(key):
        set_tensor_item(target, key, value)
    elif entries.is_open(target) and not _before_the_open(target, key):
        raise entries.refusal("an entry is set of a list")
    elif isinstance(key, Number) and isinstance(target, list):
        wrapped = _wrapped(key, len(target))
        target[:] = [select(_equals(wrapped, i), value, old) for i, old in enumerate(target)]
    elif isinstance(key, Number) and isinstance(target, dict):
        raise Refused("a dict entry is set under a key that is a tensor's value", "python-table-lookup")
    elif isinstance(target, torch.Tensor) and isinstance(value, Number):
        target[key] = value.beside(target.dtype)
    else:
        target[key] = value


def _before_the_open(target: Any, key: Any) -> bool:
    """Whether `key` counts from the front, and only over entries that are there on every path."""
    return isinstance(key, int) and key >= 0 and not entries.is_open(target[: key + 1])


def aug_item(target: Any, key: Any, operate: Callable[[Any], Any], in_place: Callable[[Any, Any], Any]) -> None:
    """`target[key] op= value`: `in_place` is Python's own way, `operate` makes a new value."""
    if isinstance(target, torch.Tensor):
        key = with_numbers(target, key)
    if has_number(key) or entries.is_open(target):
        set_item(target, key, operate(get_item(target, key)))
    else:
        target[key] = in_place(target[key], operate.__defaults__[0])  # type: ignore[index]


def _appended_item(target: list[Any], key: Any) -> Any:
    """The first or last item of a list that grew over a dimension that varies."""
    at = target[key] if key in (0, -1) else None
    if not isinstance(at, Appended):
        raise Refused("of a list that grew over a dimension that varies, only the first and last item are known", LOOP)
    return at.tensor()[key]


def _wrapped(key: Number, size: int) -> Number:
    return Number(position(key, size), int, 0, size - 1)


def _list_item(items: list[Any], key: Number) -> Any:
    if not items:
        raise IndexError("list index out of range")
    wrapped = _wrapped(key, len(items))
    if all(isinstance(i, bool | int | float) and type(i) is type(items[0]) for i in items):
        return _table(items, wrapped)
    return _choose(enumerate(items), wrapped)


def _table(items: list[Any], index: Number) -> Number:
    kind = type(items[0])
    table = torch.tensor(items, dtype={bool: torch.bool, int: torch.int64, float: torch.float64}[kind])
    if kind is float and all(numbers.fits_float32(item) for item in items):
        table = table.float()
    value = torch.index_select(table, 0, index.tensor.reshape(1)).reshape(())
    return Number(value, kind, *((min(items), max(items)) if kind is int else (None, None)))


def _choose(pairs: Any, key: Number) -> Any:
    tests = []
    for known, item in pairs:
        tests.append((_equals(key, _comparable(known)), item))
    if not tests:
        raise KeyError("an empty dict")
    if all(callable(item) and not isinstance(item, torch.Tensor) for _, item in tests):
        return Choice(tests)
    chosen = tests[-1][1]  # a guard speaks for a key that is in none of them
    for held, item in reversed(tests[:-1]):
        chosen = select(held, item, chosen)
    return chosen


def _comparable(known: Any) -> Any:
    if not isinstance(known, bool | int | float):
        raise Refused("a dict whose keys are no numbers is indexed by a tensor's value", "python-table-lookup")
    return known


def _equals(key: Number, known: Any) -> Number:
    held: Any = key == known
    return held  # type: ignore[no-any-return]


def _first_true(pairs: list[tuple[Number, Callable[[], Any]]]) -> Any:
    (held, run), *rest = pairs
    return predicate(held, run, lambda: _first_true(rest)) if rest else run()
