"""Look-up and assignment by an index that is a tensor's value: tensors, lists and dicts of values, lists of modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.control_flow.rows import LOOP
from graphaudit.capture.control_flow.select import select
from graphaudit.capture.control_flow.session import current
from graphaudit.capture.control_flow.sizes import depends_on_data, is_size
from graphaudit.graphs.selection import where

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
        if isinstance(key, torch.Tensor) and key.dim() == 0 and _is_whole(key):
            key = Number.of(key)
        if _may_be_empty(target, key):
            return _padded(target, key)[key]
        key = _perhaps_outside(target, key)
        return _tensor_item(target, key) if has_number(key) else target[key]
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
    if isinstance(target, torch.Tensor) and isinstance(key, torch.Tensor) and key.dim() == 0 and _is_whole(key):
        key = Number.of(key)
    if isinstance(target, torch.Tensor):
        key = _perhaps_outside(target, key)
    if isinstance(target, torch.Tensor) and has_number(key):
        _set_tensor_item(target, key, value)
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
        key = _perhaps_outside(target, key)
    whole = isinstance(key, torch.Tensor) and key.dim() == 0 and _is_whole(key)
    if has_number(key) or whole or entries.is_open(target):
        set_item(target, key, operate(get_item(target, key)))
    else:
        target[key] = in_place(target[key], operate.__defaults__[0])  # type: ignore[index]


def _appended_item(target: list[Any], key: Any) -> Any:
    """The first or last item of a list that grew over a dimension that varies."""
    at = target[key] if key in (0, -1) else None
    if not isinstance(at, Appended):
        raise Refused("of a list that grew over a dimension that varies, only the first and last item are known", LOOP)
    return at.tensor()[key]


def _perhaps_outside(target: torch.Tensor, key: Any) -> Any:
    """The key with numbers in place of integers on dimensions that vary, in a region that such a size may not take."""
    if current().mask is None:
        return key
    items = list(key) if isinstance(key, tuple) else [key]
    if len(items) > target.dim() or not all(isinstance(i, int | slice | Number) for i in items):
        return key
    for dim, item in enumerate(items):
        if type(item) is int and is_size(target.shape[dim]):
            items[dim] = Number(torch.scalar_tensor(item, dtype=torch.int64), int, item, item)
    return tuple(items) if isinstance(key, tuple) else items[0]


def _is_whole(key: torch.Tensor) -> bool:
    return not key.is_floating_point() and not key.is_complex() and key.dtype not in (torch.bool, torch.uint8)


def _tensor_item(target: torch.Tensor, key: Any) -> torch.Tensor:
    basic, positions = _split(target, key)
    result = target[basic]
    for dim, place in reversed(positions):
        if isinstance(place, _Window):
            result = torch.index_select(result, dim, place.start.wide + torch.arange(place.length))
        else:
            index = _position(place, result.shape[dim])
            result = torch.index_select(result, dim, index.reshape(1)).squeeze(dim)
    return result


def _set_tensor_item(target: torch.Tensor, key: Any, value: Any) -> None:
    basic, places = _split(target, key)
    positions = [(dim, place) for dim, place in places if isinstance(place, Number)]
    if len(positions) < len(places):
        raise _mixed()
    view = target[basic]
    hit: torch.Tensor | None = None
    for dim, number in positions:
        along = torch.arange(view.shape[dim]).reshape([-1 if d == dim else 1 for d in range(view.dim())])
        here = torch.eq(along, _position(number, view.shape[dim]))
        hit = here if hit is None else torch.logical_and(hit, here)
    if isinstance(value, Number):
        value = value.beside(target.dtype)
    if not isinstance(value, torch.Tensor):
        value = torch.scalar_tensor(value, dtype=target.dtype)
    else:
        kept = [size for d, size in enumerate(view.shape) if all(d != dim for dim, _ in positions)]
        value = value.to(target.dtype).expand(kept)
        for dim, _ in positions:
            value = value.unsqueeze(dim)
    assert hit is not None
    view.copy_(where(hit, value, view))


@dataclass(frozen=True)
class _Window:
    """A slice of known length whose start a tensor decides, and that lies inside of its dimension."""

    start: Number
    length: int

    @classmethod
    def of(cls, item: slice, size: Any) -> _Window:
        """`[start : start + length]`. Raises Refused where that is not known to hold."""
        length = numbers.distance(item.start, item.stop)
        if length is None or length < 0 or item.step not in (None, 1) or not isinstance(size, int):
            raise _mixed()
        if item.start.low is None or item.start.low < 0 or item.stop.high is None or item.stop.high > size:
            raise _mixed()
        return cls(item.start, length)


def _mixed() -> Refused:
    return Refused("an index mixes tensors or data-dependent slices with a tensor's value")


def _split(target: torch.Tensor, key: Any) -> tuple[tuple[Any, ...], list[tuple[int, Number | _Window]]]:
    """The key with full slices for numbers and windows, and the dimensions of its result on which those then select."""
    items = key if isinstance(key, tuple) else (key,)
    basic: list[Any] = []
    positions: list[tuple[int, Number | _Window]] = []
    dim = axis = 0  # of the result, of the target
    for item in items:
        if isinstance(item, torch.Tensor | list):
            raise _mixed()
        if isinstance(item, Number) or (isinstance(item, slice) and has_number(item)):
            positions.append((dim, item if isinstance(item, Number) else _Window.of(item, target.shape[axis])))
            item = slice(None)
        if item is Ellipsis:
            skipped = target.dim() - sum(1 for i in items if i is not None and i is not Ellipsis)
            dim, axis = dim + skipped, axis + skipped
        else:
            dim += item is None or isinstance(item, slice)
            axis += item is not None
        basic.append(item)
    return tuple(basic), positions


def _position(number: Number, size: Any) -> torch.Tensor:
    """The index as 0-d int64: counted from the front, and inside the dimension where another path is the one taken."""
    index = numbers.as_int(number)
    position = index.tensor.to(torch.int64)
    if index.low is None or index.low < 0:
        position = torch.where(position < 0, position + size, position)
    if current().mask is not None:
        position = torch.clamp(position, 0, size - 1)
    return position


def _wrapped(key: Number, size: int) -> Number:
    return Number(_position(key, size), int, 0, size - 1)


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
