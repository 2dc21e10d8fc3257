"""Containers that a policy only writes to, such as logs: found by running it with containers that cannot be read.

A stand-in takes whatever is put into it and keeps none of it; each way of reading it raises. Functions in C read past
those methods and find it empty, which shows in the results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from graphaudit.policy.isolation import clone_tensors
from graphaudit.policy.policy import Policy
from graphaudit.policy.seeds import preserved_generators
from graphaudit.policy.state import Root


class _Read(Exception):
    """A stand-in was read."""


def only_written(policy: Policy, roots: Iterable[Root], calls: Sequence[Sequence[Any]]) -> bool:
    """Whether the attributes hold containers that no call in a row of `calls` reads.

    `roots` belong to the policy's working copy. False where one of them holds something else.
    """
    roots = list(roots)
    if any(_stand_in(root.table.get(root.name)) is None for root in roots):
        return False
    wanted = _results(policy, (), calls)
    try:
        found = _results(policy, roots, calls)
    except Exception:  # the user's forward, over a container that is not to be read
        return False
    return [len(r) for r in wanted] == [len(r) for r in found] and all(
        map(_is_same, (leaf for r in wanted for leaf in r), (leaf for r in found for leaf in r))
    )


def _results(policy: Policy, roots: Iterable[Root], calls: Sequence[Sequence[Any]]) -> list[list[Any]]:
    found: list[list[Any]] = []
    with preserved_generators(), policy.working.fresh() as module:
        torch.manual_seed(0)
        for root in roots:
            root.table[root.name] = _stand_in(root.table[root.name])
        for args in calls:
            try:
                result = module(*clone_tensors(tuple(args)), **clone_tensors(dict(policy.example_kwargs)))
            except _Read:
                raise
            except Exception:  # the user's forward, on inputs that are not the example
                continue
            found.append(pytree.tree_leaves(clone_tensors(result)))
    return found


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and bool(torch.equal(torch.nan_to_num(one), torch.nan_to_num(other)))
    return type(one) is type(other) and bool(one == other)


def _stand_in(value: Any) -> Any:
    """What takes the place of a container; None for anything else."""
    if isinstance(value, dict):
        return _Dict(value)
    stand_ins: dict[type, type] = {list: _List, deque: _Deque, set: _Set}
    cls = stand_ins.get(type(value))
    return cls() if cls is not None else None


def _drop(_self: Any, *_: Any, **__: Any) -> None:
    """Takes a value and keeps nothing."""


def _drop_in_place(self: Any, _: Any) -> Any:
    return self


def _read(_self: Any, *_: Any, **__: Any) -> Any:
    raise _Read


class _List(list[Any]):
    append = extend = insert = clear = __setitem__ = __delitem__ = _drop
    __iadd__ = _drop_in_place
    __len__ = __iter__ = __getitem__ = __contains__ = __reversed__ = __eq__ = __add__ = __mul__ = _read
    index = count = pop = copy = sort = reverse = remove = _read


class _Deque(deque[Any]):
    append = appendleft = extend = extendleft = insert = clear = __setitem__ = _drop
    __iadd__ = _drop_in_place
    __len__ = __iter__ = __getitem__ = __contains__ = __reversed__ = __eq__ = __add__ = _read
    index = count = pop = popleft = copy = rotate = remove = _read


class _Set(set[Any]):
    add = update = discard = clear = _drop
    __ior__ = _drop_in_place
    __len__ = __iter__ = __contains__ = __eq__ = __or__ = __and__ = __sub__ = pop = remove = copy = _read


class _Dict(dict[Any, Any]):
    """Only the containers in it are there to be written to."""

    clear = __delitem__ = _drop
    __len__ = __iter__ = __contains__ = __eq__ = __or__ = keys = values = items = pop = copy = _read

    def __init__(self, given: dict[Any, Any]) -> None:
        super().__init__()
        self.update(given)

    def __setitem__(self, key: Any, value: Any) -> None:
        stand_in = _stand_in(value)
        if stand_in is not None:
            super().__setitem__(key, stand_in)

    def __getitem__(self, key: Any) -> Any:
        found = super().get(key)
        return _read(self) if found is None else found

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if super().get(key) is None:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **named: Any) -> None:
        for key, value in dict(*others, **named).items():
            self[key] = value

    get = __getitem__  # type: ignore[assignment]
