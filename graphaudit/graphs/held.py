"""Generators that a policy holds (`self.rng = …`): where each begins, and the streams that run from there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from graphaudit.graphs import foreign

# PyTorch's CPU generator as bytes: the struct of aten/src/ATen/CPUGeneratorImpl.cpp, and what `torch.Generator` keeps
# for the next call (the second normal of a pair; that of float32 is not used any more).
_TORCH = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "key", "normal", "has_normal"],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", 624), "<f8", "<i4"],
        "offsets": [0, 8, 12, 16, 24, 5024, 5040],
        "itemsize": 5056,
    }
)


@dataclass(frozen=True)
class Held:
    """A generator by the name that manifests call it (`self.rng`), and its state at the time of the audit, as JSON
    holds it: of `torch` that of `runtimes.generator.Generator`, of the others that of `graphs.foreign`."""

    name: str
    kind: Literal["torch", "python", "numpy-legacy", "numpy"]
    state: Any = field(compare=False, repr=False)

    @classmethod
    def of(cls, name: str, source: Any) -> Held | None:
        """The record of a generator; None for an object that is none, or one whose stream cannot be run elsewhere."""
        if isinstance(source, torch.Generator):
            return cls(name, "torch", _torch_state(source)) if source.device.type == "cpu" else None
        kind = foreign.kind_of(source)
        return cls(name, kind, foreign.get_state(source)) if kind is not None else None

    def start(self) -> Any:
        """A generator of its own in that state."""
        return _torch_generator(self.state) if self.kind == "torch" else foreign.make(self.kind, self.state)


def begin(source: Any, seed: int) -> None:
    """Start a generator over, as its own library does."""
    if isinstance(source, torch.Generator):
        source.manual_seed(seed)
    else:
        foreign.begin(source, seed)


def snapshot(source: Any) -> Any:
    """Where a generator stands, to compare, or to give to `restore`."""
    return source.get_state().numpy().tobytes() if isinstance(source, torch.Generator) else foreign.get_state(source)


def restore(source: Any, state: Any) -> None:
    """Put a generator back to where `snapshot` found it."""
    if isinstance(source, torch.Generator):
        source.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
    else:
        foreign.set_state(source, state)


class _Streams:
    """The streams of one run. With a seed other than 0 they begin there, so that not every run draws the same."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._running: dict[Held, Any] = {}

    def of(self, held: Held) -> Any:
        if held not in self._running:
            self._running[held] = held.start()
            if self._seed:
                begin(self._running[held], self._seed)
        return self._running[held]

    def standing(self) -> list[Any]:
        return [standing(source) for source in self._running.values()]

    def named(self, name: str) -> Any:
        return next(source for held, source in self._running.items() if held.name == name)


_CURRENT: ContextVar[_Streams | None] = ContextVar("streams", default=None)


@contextmanager
def streams(seed: int) -> Iterator[None]:
    """Inside, the draws of a held generator go on from run to run; they begin at its state, or at a `seed` that is
    not 0."""
    token = _CURRENT.set(_Streams(seed))
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def in_use(held: Iterable[Held]) -> Iterator[None]:
    """Inside, the streams of these generators are found by name: those around, or new ones."""
    around = _CURRENT.get() or _Streams(0)
    token = _CURRENT.set(around)
    try:
        for generator in held:
            around.of(generator)
        yield
    finally:
        _CURRENT.reset(token)


def stream(held: Held) -> Any:
    """The running stream of a generator; one from its start where none runs."""
    around = _CURRENT.get()
    return around.of(held) if around is not None else held.start()


def standing(source: Any) -> Any:
    """Where a generator stands, the same for all that go on alike."""
    return _torch_state(source) if isinstance(source, torch.Generator) else foreign.get_state(source)


def running() -> list[Any]:
    """Where the streams that run stand."""
    around = _CURRENT.get()
    return around.standing() if around is not None else []


def source_named(name: str) -> Any:
    """The generator of Python's or NumPy's that draws under that name: a global one, or one that is `in_use`."""
    around = _CURRENT.get()
    return foreign.global_source(name) if name in foreign.GLOBAL or around is None else around.named(name)


def _torch_state(generator: torch.Generator) -> dict[str, Any]:
    state = np.frombuffer(generator.get_state().numpy().tobytes(), dtype=_TORCH)[0]
    position = 624 if state["left"] == 1 else int(state["next"])
    kept = float(state["normal"]) if state["has_normal"] else None
    return {"key": [int(k) for k in state["key"]], "position": position, "next_normal": kept}


def _torch_generator(state: Any) -> torch.Generator:
    generator = torch.Generator()
    raw = np.frombuffer(generator.get_state().numpy().tobytes(), dtype=_TORCH).copy()
    raw["key"], raw["next"] = state["key"], state["position"] % 624
    raw["left"] = 1 if state["position"] == 624 else 624 - state["position"] + 1
    kept = state["next_normal"]
    raw["normal"], raw["has_normal"] = 0.0 if kept is None else kept, kept is not None
    generator.set_state(torch.frombuffer(bytearray(raw.tobytes()), dtype=torch.uint8))
    return generator
