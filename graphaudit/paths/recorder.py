"""What one eager run decided: outcomes, margins, and how often loops ran."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop

from graphaudit.capture.source import Span as Region
from graphaudit.capture.source import locate, span_of
from graphaudit.findings import Place
from graphaudit.graphs.places import is_engine, place_of
from graphaudit.paths.constants import Constants
from graphaudit.paths.functions import Functions
from graphaudit.paths.margins import Margins, difference, number
from graphaudit.policy.isolation import other_forward

_KEPT = 64  # outcomes of one decision, and entries of one loop, in one run
_MOST = 4096  # passes of one loop
_ASKING = ("call:max", "call:min", "call:any", "call:all", "call:sorted")  # ask tensors without a statement of theirs
_OWN = "graphaudit.paths."


# A site's number; the place of a builtin that asks tensors; a loop over a range, and how many passes it has at least.
Key = int | Region | tuple[int, int]


class Outcome(NamedTuple):
    """One decision. `values` are what was compared or asked, where that were Python's own numbers."""

    truth: bool
    values: tuple[Any, ...]
    margin: torch.Tensor | float | None

    @property
    def is_numeric(self) -> bool:
        """Whether Python's own numbers were compared, or one was asked whether it is zero."""
        return len(self.values) == 2

    @property
    def distance(self) -> float:
        """How far the decision is from coming out otherwise; infinite where nobody knows."""
        if self.margin is None:
            return float("inf")
        value = abs(float(self.margin.detach() if isinstance(self.margin, torch.Tensor) else self.margin))
        return value if value < float("inf") else 1e300


@dataclass(eq=False)
class Count:
    """One loop, from entry to end. `ended`: it ran to the end of what it iterates over."""

    number: int = 0
    ended: bool = False
    is_range: bool = False

    def passes(self) -> None:
        """One more pass begins. Raises TooLong."""
        self.number += 1
        if self.number > _MOST:
            raise TooLong


class TooLong(BaseException):
    """A loop that may never end, on an input that was made up. No Exception: a `try` of the user's must not take it."""


@dataclass
class Run:
    """All that was recorded in one run, by its key.

    `tensors`  the sites at which a tensor itself was asked
    `reads`    where in the policy's functions a tensor became a Python value: code and instruction
    `unknown`  places that asked a tensor and have no probe
    """

    outcomes: dict[Key, list[Outcome]] = field(default_factory=dict)
    counts: dict[int, list[Count]] = field(default_factory=dict)
    tensors: set[Key] = field(default_factory=set)
    reads: set[tuple[CodeType, int]] = field(default_factory=set)
    unknown: set[Place] = field(default_factory=set)


class Recorder:
    """The probe: hands on what it is given, and writes into `run`."""

    def __init__(self) -> None:
        self.functions = Functions(self)
        self.run = Run()
        self.named: set[float] = set()  # numbers that something was compared with, in any run
        self.constants = Constants(lambda value: isinstance(value, int | float) and value in self._numbers)
        self._margins = Margins(self._converted, self.constants)
        self._operands: dict[int, tuple[str, Any, Any]] = {}
        self._numbers: dict[float, torch.Tensor] = {}
        self._expected = False
        self._installed = ExitStack()

    def start(self) -> Margins:
        """Begin a new run; the function mode has to be active for as long as it lasts."""
        self.run = Run()
        self._margins = Margins(self._converted, self.constants)
        self._operands.clear()
        self._numbers.clear()
        self._expected = False
        return self._margins

    def install(self, module: nn.Module) -> None:
        """Give a module's parts forwards with probes, until `uninstall`."""
        for part in module.modules():
            twin = self.functions.twin(part.forward)
            if twin is not part.forward and twin != part.forward:
                self._installed.enter_context(other_forward(part, twin))

    def uninstall(self) -> None:
        """Put the modules' own forwards back."""
        self._installed.close()

    # What probed functions call.

    def compared(self, site: int, symbol: str, left: Any, right: Any) -> Any:
        """`left symbol right`."""
        self._operands[site] = (symbol, left, right)
        self.named.update(v for v in (left, right) if type(v) in (int, float) and self._is_named(v))
        return getattr(operator, symbol)(left, right)

    def _is_named(self, value: float) -> bool:
        return value not in self._numbers and math.isfinite(value)

    def decide(self, site: int, value: Any) -> bool:
        """`bool(value)`, where Python decides by it."""
        self._expected = isinstance(value, torch.Tensor)
        truth = bool(value)
        self._expected = False
        self._note(site, value, truth)
        return truth

    def operand(self, site: int, value: Any) -> Any:
        """An operand of `and` or `or`, whose value goes on."""
        self.decide(site, value)
        return value

    def noted(self, site: int, value: Any) -> Any:
        """A comparison whose result goes on."""
        if isinstance(value, bool):
            self._note(site, value, value)
        else:
            self._operands.pop(site, None)
        return value

    def enter(self, site: int) -> Count:
        """A loop begins."""
        count = Count()
        kept = self.run.counts.setdefault(site, [])
        if len(kept) < _KEPT:
            kept.append(count)
        return count

    def loop(self, site: int, iterated: Any) -> Iterator[Any]:
        """`iter(iterated)`."""
        count = self.enter(site)
        if isinstance(iterated, range):
            count.is_range = True
            self._limit(site, iterated)
        return _Counted(iter(iterated), count)

    def follow(self, function: Any) -> Any:
        """What is called in place of `function`."""
        if isinstance(function, nn.Module):
            if "forward" not in vars(function):
                self.install(function)
            return function
        if function is min or function is max:
            return partial(self._extreme, function)
        if function is torch.cond:
            return self._cond
        if function is while_loop:
            return self._while_loop
        return self.functions.twin(function)

    def _extreme(self, function: Any, *values: Any, **options: Any) -> Any:
        """`min` or `max`; of two numbers, the one that was read out of a tensor may be the result or not."""
        numbers = len(values) == 2 and all(isinstance(v, int | float) for v in values)
        if numbers and any(v in self._numbers for v in values):
            region = locate(span_of(self._frames()[-1]))[0]
            self.run.tensors.add(region)
            margin = difference("lt", *self._sources(*values))
            self._add(region, Outcome(values[0] < values[1], values, margin))
        return function(*values, **options)

    def _sources(self, *values: Any) -> list[Any]:
        """Numbers, or the tensors (float64) that they were read out of."""
        found = (self._numbers.get(v) for v in values)
        return [number(v) if tensor is None else tensor.double() for v, tensor in zip(values, found)]

    def _limit(self, site: int, items: range) -> None:
        """Whether a loop over a range with a tensor's value for its end runs once, and more than once."""
        stop = self._numbers.get(items.stop)
        if stop is not None and items.step > 0:
            for least in (1, 2):
                edge = items.start + (least - 1) * items.step + 1
                values = (items.stop, edge)
                self._add((site, least), Outcome(items.stop >= edge, values, stop.double() - edge))

    def _cond(self, pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
        taken = true_fn if self._asked(pred) else false_fn
        return self.follow(taken)(*operands)

    def _while_loop(self, cond_fn: Any, body_fn: Any, carried_inputs: Any, additional_inputs: Any = ()) -> Any:
        carried = tuple(carried_inputs)
        while self._asked(self.follow(cond_fn)(*carried, *additional_inputs)):
            carried = tuple(self.follow(body_fn)(*carried, *additional_inputs))
        return carried

    def _asked(self, value: Any) -> bool:
        self._expected = True
        truth = bool(value)
        self._expected = False
        frame = self._frames()[-1]
        self._keep(locate(span_of(frame))[0], value, truth)
        return truth

    # What becomes of it.

    def _note(self, site: int, value: Any, truth: bool) -> None:
        symbol, left, right = self._operands.pop(site, ("ne", value, 0))
        if any(isinstance(v, torch.Tensor) for v in (value, left, right)):
            self._keep(site, value, truth)
            return
        numbers = all(isinstance(v, bool | int | float) for v in (left, right))
        margin: torch.Tensor | float | None = None
        if numbers:
            margin = difference(symbol, *self._sources(left, right))
        self._add(site, Outcome(truth, (left, right) if numbers else (truth,), margin))

    def _keep(self, site: Key, value: Any, truth: bool) -> None:
        if self.constants.holds(value):
            self._add(site, Outcome(truth, (truth,), None))
            return
        self.run.tensors.add(site)
        margin = self._margins.of(value) if isinstance(value, torch.Tensor) else None
        self._add(site, Outcome(truth, (truth,), margin.reshape(()) if margin is not None else None))

    def _add(self, site: Key, outcome: Outcome) -> None:
        kept = self.run.outcomes.setdefault(site, [])
        if len(kept) < _KEPT:
            kept.append(outcome)

    def _converted(self, name: str, tensor: torch.Tensor, result: Any) -> None:
        """A tensor became a Python value. Where no probe asked for it, the place is looked up."""
        if self.constants.holds(tensor):
            return
        if type(result) in (int, float) and name != "bool":
            self._numbers[result] = tensor.reshape(())
        if self._expected and name == "bool":
            return
        frames = self._frames()
        for frame in frames:
            if frame.f_code in self.functions.codes:
                self.run.reads.add((frame.f_code, frame.f_lasti))
        if not frames or name not in ("bool", "is_nonzero") or not self._is_innermost(frames[-1]):
            return
        if frames[-1].f_code not in self.functions.codes:
            place = place_of([(frames[-1].f_code.co_filename, frames[-1].f_lineno)])
            self.run.unknown |= {place} if place else set()
        else:
            span, context = locate(span_of(frames[-1]))
            if context.statement in _ASKING:
                self._keep(span, tensor, bool(result))

    @staticmethod
    def _frames() -> list[FrameType]:
        """The frames of the policy and of libraries above torch, outermost first."""
        frames: list[FrameType] = []
        here: FrameType | None = sys._getframe(1)
        while here is not None and here.f_globals.get("__name__") != f"{_OWN}walker":
            if not is_engine(here.f_code.co_filename):
                frames.append(here)
            here = here.f_back
        return frames[::-1]

    @staticmethod
    def _is_innermost(frame: FrameType) -> bool:
        """Whether no code of torch's stands between a frame and the conversion: what validates does not decide."""
        here: FrameType | None = sys._getframe(1)
        while here is not None and here is not frame:
            file = here.f_code.co_filename
            if "/torch/" in file and not file.endswith(("/overrides.py", "/_tensor.py")):
                return False
            here = here.f_back
        return True


class _Counted:
    def __init__(self, items: Iterator[Any], count: Count) -> None:
        self._items = items
        self._count = count

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> Any:
        try:
            item = next(self._items)
        except StopIteration:
            self._count.ended = True
            raise
        self._count.passes()
        return item
