"""Finds the generators that a policy holds: among its attributes, and among the globals of its own files."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from graphaudit.graphs.held import Held, begin, restore, snapshot
from graphaudit.graphs.places import is_engine
from graphaudit.policy.stepping import Stepped
from graphaudit.policy.usercode import is_users

_DEEPEST = 4  # objects in objects
GENERATORS = (torch.Generator, random.Random, np.random.RandomState, np.random.Generator)


class HeldGenerators:
    """The generators that a module holds, by name, in the state in which they are now.

    A name is written as in forward (`self.rng`, `self.noise.rngs[0]`); of a global it is file and variable
    (`policy.RNG`). PyTorch's, Python's and NumPy's own global generators are not among them.
    """

    def __init__(self, module: nn.Module) -> None:
        root = module.policy if isinstance(module, Stepped) else module
        self.sources: dict[str, Any] = {}
        for name, source in (*_attributes(root), *_globals(root)):
            if not any(source is known for known in (*library_generators(), *self.sources.values())):
                self.sources[name] = source
        self.records = {n: held for n, source in self.sources.items() if (held := Held.of(n, source)) is not None}
        self._before = self.snapshots()

    def seed(self, seed: int, *, torchs: bool = True) -> None:
        """Start them over, without `torchs` those of Python and NumPy alone, unless the seed is 0."""
        for name in self.records if seed else ():
            if torchs or not self._is_torchs(name):
                begin(self.sources[name], seed)
        self._before = self.snapshots()

    def snapshots(self) -> dict[str, Any]:
        """Where each stands."""
        return {name: snapshot(self.sources[name]) for name in self.records}

    def moved(self, *, torchs: bool | None = None) -> set[str]:
        """The names of those that no longer stand where they did when they were found, or seeded: PyTorch's, or the
        others, or all."""
        now = self.snapshots()
        found = {name for name, state in self._before.items() if state != now[name]}
        return {name for name in found if torchs is None or torchs is self._is_torchs(name)}

    def put_back(self) -> None:
        """Let those that moved stand where they did."""
        for name in self.moved():
            restore(self.sources[name], self._before[name])

    def _is_torchs(self, name: str) -> bool:
        return self.records[name].kind == "torch"

    def name_of(self, source: Any) -> str | None:
        """The name of a generator; None where the policy does not hold it."""
        return next((name for name in self.records if _is_same(self.sources[name], source)), None)


def _is_same(one: Any, other: Any) -> bool:
    """torch.export wraps a generator anew."""
    if isinstance(one, torch.Generator) and isinstance(other, torch.Generator):
        return bool(one._cdata == other._cdata)  # type: ignore[attr-defined]
    return one is other


def library_generators() -> tuple[Any, ...]:
    """The global generators of PyTorch (CPU), Python and NumPy."""
    return torch.default_generator, random._inst, np.random.mtrand._rand


def _attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    for prefix, part in module.named_modules():
        if not isinstance(part, torch.jit.ScriptModule):  # its attributes are not Python's
            for name, value in list(vars(part).items()):
                yield from _within(value, f"self.{prefix}.{name}" if prefix else f"self.{name}", seen, _DEEPEST)


def _within(value: Any, path: str, seen: set[int], depth: int) -> Iterator[tuple[str, Any]]:
    """The generators that a value is or holds: in containers, and in objects of the user's."""
    if not depth or id(value) in seen or isinstance(value, nn.Module | torch.Tensor):
        return
    items: Iterable[tuple[str, Any]] = ()
    if isinstance(value, GENERATORS):
        yield path, value
    elif isinstance(value, Mapping):
        items = [(f"[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, list | tuple | deque):
        items = [(f"[{index}]", item) for index, item in enumerate(value)]
    elif is_users(value) and not isinstance(value, type):
        items = [(f".{name}", item) for name, item in vars(value).items()]
    seen.add(id(value))
    for step, item in items:
        yield from _within(item, path + step, seen, depth - 1)


def _globals(module: nn.Module) -> Iterator[tuple[str, Any]]:
    names = dict.fromkeys(cls.__module__ for part in module.modules() for cls in type(part).__mro__)
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and not is_engine(file):
            for variable, value in list(vars(sys.modules[name]).items()):
                if isinstance(value, GENERATORS):
                    yield f"{Path(file).stem}.{variable}", value
