"""What one predicated capture knows: the masks it runs under, its bounds, what it dropped."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType
from typing import Any

import torch
from torch import nn
from torch.fx.traceback import annotate, preserve_node_meta

from graphaudit.capture.control_flow.aliases import Aliases
from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.refusal import Refused, user_place
from graphaudit.capture.control_flow.select import facts_of
from graphaudit.control_flow import ControlFlow, LoopChoice
from graphaudit.findings import Place
from graphaudit.graphs.loop_bounds import Bounds, beyond
from graphaudit.graphs.noise import DRAWN
from graphaudit.policy.held import HeldGenerators

# From this bound on, a loop that runs half as often as it may takes 70 % of the time of its masks in ONNX Runtime,
# and one that runs as often as it may at most a tenth more: benchmarks/loops_vs_masks.py (ONNX Runtime 1.32).
FASTER_AS_LOOP = 4

_DEEPEST = 64
_FRAMES = 10_000  # of Python's; transpiled code takes about ten for each call and each branch

_CURRENT: ContextVar[Session] = ContextVar("session")


@dataclass
class Guard:
    """A condition under which the graph is not what the policy does, a 0-d bool tensor, and where it comes from."""

    fires: torch.Tensor
    place: Place | None
    bound: int = 0
    error: str = ""  # what the policy raises there; empty for the bound of a loop

    @property
    def condition(self) -> str:
        """What the certificate says."""
        if self.error:
            where = f"{Path(self.place.file).name}:{self.place.line}" if self.place else "a line"
            return f"{where} raises {self.error} on some inputs; a guard output is true on those"
        return beyond(self.place, self.bound)


@dataclass(frozen=True)
class Regions:
    """Which loops that tensors decide stay loops in the graph: those on `lines` (file, line), those whose known
    bound is `bound` passes or more (None: whatever their bound, they become masks), or every one."""

    lines: frozenset[tuple[str, int]] = frozenset()
    bound: int | None = None
    everywhere: bool = False

    def why(self, place: Place | None, bound: int | None) -> str | None:
        """Why the loop at `place`, which runs at most `bound` times, stays a loop; None where it becomes masks."""
        if self.everywhere:
            return "asked for"
        if place is not None and (place.file, place.line) in self.lines:
            return "nothing bounds how often it runs"
        if self.bound is not None and bound is not None and bound >= self.bound:
            return f"up to {bound} passes, faster as a loop from {self.bound} on"
        return None

    def also(self, place: Place) -> Regions:
        """These, and the loop at `place`."""
        return replace(self, lines=self.lines | {(place.file, place.line)})


@dataclass
class Session:
    """The state of one capture. `masks` are the conditions of the regions entered, outermost first."""

    root: nn.Module
    bounds: Bounds = field(default_factory=Bounds)
    regions: Regions = field(default_factory=Regions)
    masks: list[torch.Tensor] = field(default_factory=list)
    held: list[Number] = field(default_factory=list)  # the conditions that the masks are made of
    guards: list[Guard] = field(default_factory=list)
    loops: dict[Place | None, LoopChoice] = field(default_factory=dict)  # what became of each loop
    aliases: Aliases = field(default_factory=Aliases)
    depth: int = 0  # of calls
    attempts: int = 0  # how many `try` are around that would catch what data raises
    left_alone: dict[CodeType, tuple[str, int]] = field(default_factory=dict)  # not transpiled: reason, line
    adopted: dict[type, list[tuple[str, object]]] = field(default_factory=dict)  # classes, with what was their own
    each: Any = None  # the run of a body for all passes (varying.AllAtOnce) that is going on
    writes: int = 0  # in-place writes to tensors so far
    loops_around: int = 0  # how many loops that stay loops surround what runs
    region_writes: list[tuple[torch.Tensor, Place | None]] = field(default_factory=list)  # in the innermost
    globals: dict[int, Mapping[str, object]] = field(default_factory=dict)  # of the user's files, by id
    drew: bool = False  # from a generator of Python's or NumPy's, while torch traced: the graph holds those numbers
    drawn: dict[int, torch.Tensor] = field(default_factory=dict)  # masks under which the policy draws, by id
    one_sided: list[Place] = field(default_factory=list)  # where it does
    generators: HeldGenerators = field(init=False)  # those that the policy holds

    def __post_init__(self) -> None:
        self.generators = HeldGenerators(self.root)

    @property
    def mask(self) -> torch.Tensor | None:
        """Where the present region is the path taken, 0-d bool; None outside of every region."""
        return self.masks[-1] if self.masks else None

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """The policy draws inside. Under a mask it may not: the nodes say which mask that is, by its place among
        `drawn`."""
        if self.mask is None:
            yield
            return
        place = user_place()
        if place is not None and place not in self.one_sided:
            self.one_sided.append(place)
        self.drawn.setdefault(id(self.mask), self.mask)
        with preserve_node_meta(), annotate({DRAWN: list(self.drawn).index(id(self.mask))}):
            yield

    def roots(self) -> list[object]:
        """Where the state that forward may change starts: the policy, and objects among its files' globals."""
        held = [v for g in self.globals.values() for k, v in g.items() if not k.startswith("__")]
        return [self.root, *(v for v in held if isinstance(v, list | dict | set))]

    def chose(self, form: ControlFlow, place: Place | None, passes: int | None, why: str) -> None:
        """Note what becomes of the loop at `place`: the most passes, where it is met more than once."""
        known = self.loops.get(place)
        if known is None or (known.passes or 0) < (passes or 0):
            self.loops[place] = LoopChoice(form=form, place=place, passes=passes, why=why)

    @contextmanager
    def region(self, condition: Number) -> Iterator[None]:
        """Run the body under one more condition."""
        outer = self.mask
        self.masks.append(condition.tensor if outer is None else torch.logical_and(outer, condition.tensor))
        self.held.append(condition)
        try:
            yield
        finally:
            self.masks.pop()
            self.held.pop()

    def known(self, condition: Number) -> bool | None:
        """Whether `condition` is true in the present region; None where that is not known."""
        return next((facts[id(condition)] for h in self.held if id(condition) in (facts := facts_of(h))), None)

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """One more call inside of calls. Raises Refused where a function calls itself without end."""
        if self.depth >= _DEEPEST:
            raise Refused("a function calls itself here, and nothing but tensors ends it", "recursion")
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make this the session that operators find."""
        token, limit = _CURRENT.set(self), sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _FRAMES))
        try:
            yield
        finally:
            sys.setrecursionlimit(limit)
            _CURRENT.reset(token)


def is_capturing() -> bool:
    """Whether a capture that makes masks is running."""
    return _CURRENT.get(None) is not None


def current() -> Session:
    """The session of the capture that is running."""
    return _CURRENT.get()
