"""Python state that a branch may change (variables, attributes, lists, dicts): kept before a side, put back after."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from malt.operators.variables import Undefined
from torch import nn
from torch.utils import _pytree as pytree

from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.control_flow.select import facts_of, negated, resolved, select
from graphaudit.policy.usercode import is_users

MISSING = Undefined("an attribute")

Slot = tuple[int, Any]  # a container, by identity, and the place in it: an index, a key, None for a variable


class World:
    """What the containers reachable from some roots hold at one moment.

    Containers are variables (closure cells), attribute dicts, lists, dicts, sets and deques. Tensors are not among
    them: writes to those are masked where they happen.
    """

    def __init__(self, roots: Iterable[Any]) -> None:
        self._kept: dict[int, tuple[Any, Any]] = {}
        for container in _reachable(roots):
            self._kept[id(container)] = (container, _items(container))

    def now(self) -> World:
        """The same containers, as they are now."""
        later = World(())
        later._kept = {key: (container, _items(container)) for key, (container, _) in self._kept.items()}
        return later

    def restore(self) -> None:
        """Put back what was."""
        for container, items in self._kept.values():
            if not _is_same(_items(container), items):
                _fill(container, items)

    def changed(self) -> list[tuple[Any, Any, Any]]:
        """The containers that are not as they were: container, what it held, what it holds now."""
        now = ((container, items, _items(container)) for container, items in self._kept.values())
        return [(container, was, held) for container, was, held in now if not _is_same(held, was)]

    def slots(self) -> dict[Slot, Any]:
        """What every variable, attribute and entry holds."""
        return {
            (key, place): value
            for key, (container, items) in self._kept.items()
            for place, value in _entries(container, items).items()
        }

    def put(self, slot: Slot, value: Any) -> None:
        """Let a slot hold `value` from now on."""
        container, items = self._kept[slot[0]][0], _items(self._kept[slot[0]][0])
        if isinstance(container, CellType):
            container.cell_contents = value
        else:
            items[slot[1]] = value
            _fill(container, items)

    def differences(self, later: World) -> Iterator[tuple[Slot, Any]]:
        """(slot, what it holds in `later`) where that is something else than here; an attribute may be new in `later`.

        Raises Refused where a container has gained or lost entries.
        """
        for key, (container, items) in self._kept.items():
            rest = later._kept[key][1]
            if _is_same(items, rest):
                continue
            old, new = _entries(container, items), _entries(container, rest)
            grown = bool(new.keys() - old.keys()) and not isinstance(container, _Attributes)
            if isinstance(container, set) or grown or old.keys() - new.keys():
                raise Refused(f"this loop leaves more or fewer members in a {_kind(container)} on each pass")
            for place, value in new.items():
                before = old.get(place, MISSING)
                if value is not before and not (isinstance(value, bool | int | float | str) and _equal(before, value)):
                    yield (key, place), value

    def differs_in_python(self, later: World) -> bool:
        """Whether anything but tensors and numbers out of tensors is something else in `later`; numbers that come from
        arguments count, because what was seen of them ends."""
        try:
            values = [value for _, value in self.differences(later)]
        except Refused:
            return True
        values = pytree.tree_leaves(values)
        return any(not isinstance(v, torch.Tensor | Number) or getattr(v, "seen", None) is not None for v in values)

    def assume(self, facts: dict[int, bool]) -> None:
        """Put the truth that is known in a region in place of the conditions (by id) that variables hold."""
        for container, items in self._kept.values():
            if isinstance(container, CellType) and (known := resolved(items, facts)) is not items:
                container.cell_contents = known

    def assuming_not(self, held: Number) -> World:
        """The same state where `held` is false: variables that hold such a condition hold its truth."""
        facts = facts_of(negated(held))
        other = World(())
        for key, (container, items) in self._kept.items():
            other._kept[key] = (container, resolved(items, facts) if isinstance(container, CellType) else items)
        return other

    @staticmethod
    def merge(condition: Number, taken: World, other: World) -> None:
        """Let every container hold what `taken` has where the condition holds, and what `other` has elsewhere."""
        for key, (container, items) in taken._kept.items():
            rest = other._kept[key][1]
            if not _is_same(items, rest) or not _is_same(_items(container), items):
                _fill(container, _merged(condition, container, items, rest))


def _merged(condition: Number, container: Any, items: Any, rest: Any) -> Any:
    if isinstance(container, CellType):
        return select(condition, items, rest)
    if isinstance(container, _Attributes):
        keys = [*items, *(k for k in rest if k not in items)]
        return {k: select(condition, items.get(k, MISSING), rest.get(k, MISSING)) for k in keys}
    if isinstance(container, set):
        if items == rest:
            return items
        raise Refused("the two sides of a branch leave different members in a set")
    return select(condition, items, rest)


def _items(container: Any) -> Any:
    if isinstance(container, CellType):
        try:
            return container.cell_contents
        except ValueError:
            return MISSING
    if isinstance(container, _Attributes):
        return dict(container.table)
    return list(container) if isinstance(container, deque) else container.copy()


def _fill(container: Any, items: Any) -> None:
    if isinstance(container, CellType):
        container.cell_contents = items
    elif isinstance(container, list):
        container[:] = items
    elif isinstance(container, deque):
        container.clear()
        container.extend(items)
    elif isinstance(container, _Attributes):
        container.table.clear()
        container.table.update(items)
    else:
        container.clear()
        container.update(items)


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(a is b for a, b in zip(one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(v is other[k] for k, v in one.items())
    return isinstance(one, set) and isinstance(other, set) and one == other


def _entries(container: Any, items: Any) -> dict[Any, Any]:
    if isinstance(container, CellType):
        return {None: items}
    if isinstance(items, dict):
        return items
    return dict(enumerate(items)) if isinstance(items, list) else {}


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _kind(container: Any) -> str:
    return "module" if isinstance(container, _Attributes) else type(container).__name__


class _Attributes:
    """The attribute dict of an object or of a module, or a file's globals."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.table = table


def contents(roots: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors that are reachable from some roots, roots included."""
    roots = list(roots)
    for value in [*roots, *(v for container in _reachable(roots) for v in _values(_items(container)))]:
        if isinstance(value, torch.Tensor):
            yield value


def _values(items: Any) -> Iterable[Any]:
    if isinstance(items, dict):
        return items.values()
    return items if isinstance(items, list | set | tuple) else [items]


def _reachable(roots: Iterable[Any]) -> Iterator[Any]:
    seen: dict[int, Any] = {}  # keeps what it has seen alive, so that ids stay theirs
    stack = list(roots)
    while stack:
        value = stack.pop()
        if id(value) in seen or isinstance(value, torch.Tensor | Number | str | int | float | type | None):
            continue
        seen[id(value)] = value
        if isinstance(value, list | set | deque):
            yield value
            stack.extend(value)
        elif isinstance(value, dict):
            yield value
            stack.extend(value.values())
        elif isinstance(value, tuple):
            stack.extend(value)
        elif isinstance(value, CellType):
            yield value
            stack.append(_items(value))
        elif isinstance(value, FunctionType):
            stack.extend(value.__closure__ or ())
        elif isinstance(value, MethodType):
            stack += [value.__self__, value.__func__]
        elif isinstance(value, nn.Module) or is_users(value):
            table = vars(value)
            attributes = _Attributes(table)
            seen[id(attributes)] = attributes
            yield attributes
            stack.extend(v for k, v in table.items() if not (k.startswith("_") and k.endswith(("_hooks", "_kwargs"))))


def closures(*functions: Callable[..., Any] | None) -> list[Any]:
    """The variables that the functions of a region share with the function around them."""
    return [cell for f in functions if f is not None for cell in (getattr(f, "__closure__", None) or ())]
