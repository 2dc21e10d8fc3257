"""A policy with state as one without: the state comes in as an argument and goes out beside the result.

    forward(obs) that reads and writes self.h   →   forward(obs, graphaudit_state=(h,)) → (result, (h',))

Everything that is known of policies without state then holds for this one: capture, comparison, golden inputs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from graphaudit.policy.state import Layout, contents, fill

KEYWORD = "graphaudit_state"
PREFIX = "policy."  # of what the user's module holds, in a `Stepped`
PHASE = "calls_made"  # the number of calls so far, up to the last structure of the state; or how far a cycle of them is

_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64}

Values = Mapping[str, torch.Tensor]


class StateChanged(Exception):
    """After a call the state has another structure than it has in the policy's own episodes."""


@dataclass(frozen=True)
class Part:
    """One tensor, array or number of the state.

    `kind` is None for a tensor, np.ndarray for an array, bool, int or float (0-d: bool, int64, float64), else the type
    of `choices`, the texts or members of an enum into which the tensor is an index (0-d int64). `initial` is what it
    holds before the first call; dimensions in `shape` that vary have a name.
    """

    path: str
    kind: type | None
    initial: torch.Tensor
    shape: tuple[int | str, ...]
    choices: tuple[Any, ...] = ()

    def index_of(self, value: Any) -> int:
        """Which of the choices it is. Raises StateChanged for another."""
        for index, known in enumerate(self.choices):
            if type(known) is type(value) and known == value:
                return index
        raise StateChanged(f"{self.path} is {value!r} after this call, which it was after no call before")


class Tracer(Protocol):
    """How capture deals with what Python could only do with values. `numbers` are the types of its numbers."""

    numbers: tuple[type, ...]

    def number(self, tensor: torch.Tensor, kind: type) -> Any:
        """A Python number that is held by a 0-d tensor."""

    def array(self, tensor: torch.Tensor) -> Any:
        """An array of NumPy's that is held by a tensor."""

    def choice(self, index: torch.Tensor, choices: Sequence[Any]) -> Any:
        """The one of some Python values to which a 0-d tensor points."""

    def index(self, value: Any, index_of: Callable[[Any], int]) -> torch.Tensor:
        """The tensor that points to such a value; `index_of` gives its index."""

    def tensor(self, value: Any) -> torch.Tensor | None:
        """The tensor that holds such a number or array; None for everything else."""

    def select(self, phase: torch.Tensor, sides: Sequence[Callable[[], Any]]) -> Any:
        """What the side of that index gives."""


class Stepped(nn.Module):
    """Runs one step of `policy` from a given state. `layouts` are the structures that the state has before the first
    call, the second, …; after the last one comes that of index `back` again, or the last one stays. `names` has for
    each layout the parts of leaves that are not called as those: what has another shape in the first calls is another
    part then."""

    def __init__(
        self,
        policy: nn.Module,
        parts: list[Part],
        layouts: list[Layout],
        back: int = -1,
        names: Sequence[Mapping[str, str]] = (),
    ) -> None:
        super().__init__()
        self.policy = policy
        self.parts = {part.path: part for part in parts}
        self.layouts = layouts
        self.back = range(len(layouts))[back]
        self.names = names or [{} for _ in layouts]
        self.tracer: Tracer | None = None
        self.training = policy.training
        self.__class__ = _with_signature_of(policy.forward)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """(result, state after the call); `graphaudit_state` is the state before it. Raises StateChanged."""
        state: Values = dict(zip(self.parts, kwargs.pop(KEYWORD)))
        with self._put_back():
            if len(self.layouts) == 1:
                return self._step(0, state, args, kwargs)
            sides = [partial(self._step, i, state, args, kwargs) for i in range(len(self.layouts))]
            if self.tracer is not None:
                return self.tracer.select(state[PHASE], sides)
            return sides[int(state[PHASE])]()

    @contextmanager
    def traced(self, tracer: Tracer) -> Iterator[None]:
        """Let a capture run forward."""
        self.tracer = tracer
        try:
            yield
        finally:
            self.tracer = None

    def _step(self, index: int, state: Values, args: Any, kwargs: Any) -> tuple[Any, tuple[torch.Tensor, ...]]:
        after = index + 1 if index + 1 < len(self.layouts) else self.back
        before, names = self.names[index], self.names[after]
        parts = {path: before.get(path, path) for path in self.layouts[index].leaves()}
        self.layouts[index].install({p: self._taken(n, state[n]) for p, n in parts.items() if n in state})
        result = self.policy(*args, **kwargs)
        numbers = self.tracer.numbers if self.tracer is not None else ()
        found = Layout.of(self.policy, set(self.layouts[after].nodes), numbers).leaves()
        expected = self.layouts[after].leaves()
        if found.keys() != expected.keys():
            changed = sorted(found.keys() ^ expected.keys())
            raise StateChanged(f"the state has another structure after this call: {', '.join(changed)}")
        left = {names.get(path, path): leaf.value for path, leaf in found.items()}
        new = {n: self._given(n, left[n]) if n in left else state[n] for n in self.parts if n != PHASE}
        if PHASE in self.parts:
            new[PHASE] = torch.full((), after)
        return result, tuple(new[path] for path in self.parts)

    def _taken(self, path: str, tensor: torch.Tensor) -> Any:
        kind, choices = self.parts[path].kind, self.parts[path].choices
        if choices:
            return self.tracer.choice(tensor, choices) if self.tracer is not None else choices[int(tensor)]
        if kind is None:
            return tensor.clone()  # the policy may write to it
        if kind is np.ndarray:
            return self.tracer.array(tensor.clone()) if self.tracer is not None else tensor.numpy().copy()
        return self.tracer.number(tensor, kind) if self.tracer is not None else kind(tensor.item())

    def _given(self, path: str, value: Any) -> torch.Tensor:
        part = self.parts[path]
        if part.choices and self.tracer is not None:
            return self.tracer.index(value, part.index_of)
        if part.choices:
            return torch.full((), part.index_of(value))
        traced = self.tracer.tensor(value) if self.tracer is not None else None
        if traced is not None:
            value = traced
        if isinstance(value, np.ndarray):
            value = torch.as_tensor(value.copy())
        if isinstance(value, torch.Tensor):
            tensor = value.detach()
            return tensor.to(_DTYPES[part.kind]) if part.kind in _DTYPES else tensor
        if part.kind in _DTYPES:
            return torch.full((), part.kind(value), dtype=_DTYPES[part.kind])
        return torch.full(part.initial.shape, value, dtype=part.initial.dtype)

    @contextmanager
    def _put_back(self) -> Iterator[None]:
        """Leave the attributes and containers of the state as they were."""
        missing = object()
        tables = [(root.table, root.name) for layout in self.layouts for root, _ in layout.nodes.values()]
        attributes = [(table, name, table.get(name, missing)) for table, name in tables]
        containers = [(h.container, contents(h.container)) for layout in self.layouts for h in layout.held()]
        try:
            yield
        finally:
            for container, (keys, items) in containers:
                fill(container, keys, items)
            for table, name, value in attributes:
                if value is missing:
                    table.pop(name, None)
                else:
                    table[name] = value


def _with_signature_of(forward: Callable[..., Any]) -> type[Stepped]:
    """`Stepped` whose forward names the parameters of the policy's own: torch.export wants dynamic sizes by name."""

    def renamed(self: Stepped, *args: Any, **kwargs: Any) -> Any:
        return Stepped.forward(self, *args, **kwargs)

    try:
        own = list(inspect.signature(forward).parameters.values())
    except ValueError:  # a scripted or native forward
        return Stepped
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    state = inspect.Parameter(KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    rest = own.pop() if own and own[-1].kind is inspect.Parameter.VAR_KEYWORD else None
    parameters = [first, *own, state, *([rest] if rest else [])]
    renamed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return type("Stepped", (Stepped,), {"forward": renamed})


def number_dtype(kind: type) -> torch.dtype:
    """The dtype that holds a Python number of `kind`."""
    return _DTYPES[kind]
