"""Tensors read and written at an index that is a tensor's value: `x[:, t]`, `x[i : i + 3]`, `x[rows, t] = y`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from graphaudit.capture.control_flow import numbers
from graphaudit.capture.control_flow.conversions import has_number
from graphaudit.capture.control_flow.errors import raises
from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.control_flow.session import current
from graphaudit.capture.control_flow.sizes import is_size
from graphaudit.graphs.selection import where


def with_numbers(target: torch.Tensor, key: Any) -> Any:
    """The key with numbers in place of 0-d tensors of integers, which torch takes for Python's, and of integers on
    dimensions that vary, in a region that such a size may not take."""
    return _perhaps_outside(target, _read(key))


def is_advanced(key: Any) -> bool:
    """Whether lists or tensors with dimensions are in the key, so that eager makes a copy."""
    return isinstance(key, tuple) and any(isinstance(item, torch.Tensor | list) for item in key)


def tensor_item(target: torch.Tensor, key: Any) -> torch.Tensor:
    """`target[key]`, a copy, where a number is in the key."""
    if is_advanced(key):
        first, rest = _apart(key)
        return tensor_item(target, first)[rest]
    basic, places = _split(target, key)
    result = target[basic]
    for dim, place in reversed(places):
        if isinstance(place, _Window):
            place.known_inside()
            result = torch.index_select(result, dim, place.start.wide + torch.arange(place.length))
        else:
            index = position(place, result.shape[dim])
            result = torch.index_select(result, dim, index.reshape(1)).squeeze(dim)
    return result


def set_tensor_item(target: torch.Tensor, key: Any, value: Any) -> None:
    """`target[key] = value` where a number is in the key."""
    if isinstance(value, Number):
        value = value.beside(target.dtype)
    if is_advanced(key):
        first, rest = _apart(key)
        changed = tensor_item(target, first)
        changed[rest] = value
        key, value = first, changed
    basic, places = _split(target, key)
    view = target[basic]
    if isinstance(value, torch.Tensor):
        value = _spread(value.to(target.dtype), view, places)
    else:
        value = torch.scalar_tensor(value, dtype=target.dtype)
    hit: torch.Tensor | None = None
    for dim, place in places:
        along = torch.arange(view.shape[dim]).reshape([-1 if d == dim else 1 for d in range(view.dim())])
        here = place.covers(along) if isinstance(place, _Window) else torch.eq(along, position(place, view.shape[dim]))
        hit = here if hit is None else torch.logical_and(hit, here)
    assert hit is not None
    view.copy_(where(hit, value, view))


def position(number: Number, size: Any) -> torch.Tensor:
    """The index as 0-d int64: counted from the front, and inside the dimension where another path is the one taken."""
    index = numbers.as_int(number)
    found = index.tensor.to(torch.int64)
    if index.low is None or index.low < 0:
        found = torch.where(found < 0, found + size, found)
    if current().mask is not None:
        found = torch.clamp(found, 0, size - 1)
    return found


@dataclass(frozen=True)
class _Window:
    """A slice `[start : start + length]` of known length whose start a tensor decides, in a dimension of `size`."""

    start: Number
    length: int
    size: int
    inside: bool  # whether it is known to lie inside of the dimension

    @classmethod
    def of(cls, item: slice, size: Any) -> _Window:
        """Raises Refused where its length is not known."""
        length = numbers.distance(item.start, item.stop)
        if length is None or length < 0 or item.step not in (None, 1) or not isinstance(size, int):
            raise _unknown_length()
        low, high = item.start.low, item.stop.high
        return cls(item.start, length, size, low is not None and low >= 0 and high is not None and high <= size)

    def known_inside(self) -> None:
        """Raises Refused where it is not: Python would cut it short."""
        if not self.inside:
            raise _unknown_length()

    def covers(self, along: torch.Tensor) -> torch.Tensor:
        """Which positions are in it; the policy raises where Python would cut it short."""
        if not self.inside:
            outside = torch.logical_or(self.start.wide < 0, self.start.wide + self.length > self.size)
            raises(Number(outside, bool, 0, 1), "RuntimeError")
        return torch.logical_and(along >= self.start.wide, along < self.start.wide + self.length)


def _spread(value: torch.Tensor, view: torch.Tensor, places: list[tuple[int, Number | _Window]]) -> torch.Tensor:
    """What is assigned to some positions of `view`, in every position of it."""
    at = dict(places)
    found: list[Any] = []
    for dim, size in enumerate(view.shape):
        place = at.get(dim)
        if not isinstance(place, Number):
            found.append(place.length if isinstance(place, _Window) else size)
    value = value.expand(found)
    for dim, place in places:
        if isinstance(place, _Window):
            steps = torch.arange(place.size) - place.start.wide
            value = torch.index_select(value, dim, torch.clamp(steps, 0, place.length - 1))
        else:
            value = value.unsqueeze(dim)
    return value


def _read(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(_read(item) for item in key)
    if isinstance(key, slice):
        return slice(*(_read(part) for part in (key.start, key.stop, key.step)))
    return Number.of(key) if isinstance(key, torch.Tensor) and key.dim() == 0 and _is_whole(key) else key


def _is_whole(key: torch.Tensor) -> bool:
    return not key.is_floating_point() and not key.is_complex() and key.dtype not in (torch.bool, torch.uint8)


def _perhaps_outside(target: torch.Tensor, key: Any) -> Any:
    if current().mask is None:
        return key
    items = list(key) if isinstance(key, tuple) else [key]
    if len(items) > target.dim() or not all(isinstance(i, int | slice | Number) for i in items):
        return key
    for dim, item in enumerate(items):
        if type(item) is int and is_size(target.shape[dim]):
            items[dim] = Number(torch.scalar_tensor(item, dtype=torch.int64), int, item, item)
    return tuple(items) if isinstance(key, tuple) else items[0]


def _apart(key: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """A key of numbers alone, which torch takes first, and what is left for its result: lists and tensors."""
    first: list[Any] = []
    rest: list[Any] = []
    for item in key:
        if isinstance(item, Number) or has_number(item):
            if isinstance(item, list):
                raise Refused("a list with a tensor's value inside is an index beside others")
            first.append(item)
            rest += [] if isinstance(item, Number) else [slice(None)]
        elif isinstance(item, torch.Tensor | list):
            mask = isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8)
            first += [slice(None)] * (item.dim() if mask else 1)  # type: ignore[union-attr]
            rest.append(item)
        else:
            first += [item] if item is Ellipsis else [] if item is None else [slice(None)]
            rest.append(item)
    return tuple(first), tuple(rest)


def _unknown_length() -> Refused:
    return Refused("a tensor's value decides how long a slice is, or where it is cut short")


def _split(target: torch.Tensor, key: Any) -> tuple[tuple[Any, ...], list[tuple[int, Number | _Window]]]:
    """The key with full slices for numbers and windows, and the dimensions of its result on which those then select."""
    items = key if isinstance(key, tuple) else (key,)
    basic: list[Any] = []
    places: list[tuple[int, Number | _Window]] = []
    dim = axis = 0  # of the result, of the target
    for item in items:
        if isinstance(item, list):
            raise Refused("a list with a tensor's value inside is an index")
        if isinstance(item, Number) or (isinstance(item, slice) and has_number(item)):
            places.append((dim, item if isinstance(item, Number) else _Window.of(item, target.shape[axis])))
            item = slice(None)
        if item is Ellipsis:
            skipped = target.dim() - sum(1 for i in items if i is not None and i is not Ellipsis)
            dim, axis = dim + skipped, axis + skipped
        else:
            dim += item is None or isinstance(item, slice)
            axis += item is not None
        basic.append(item)
    return tuple(basic), places
