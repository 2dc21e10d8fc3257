"""`for` and `while`: unrolled, each pass under the condition that the loop is still running."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch

from graphaudit.capture.control_flow.branches import and_, condition, decides_on_data, predicate
from graphaudit.capture.control_flow.carried import Dependent
from graphaudit.capture.control_flow.entries import Maybe
from graphaudit.capture.control_flow.numbers import Number, as_int, high_of, seen_of
from graphaudit.capture.control_flow.refusal import Refused, user_place
from graphaudit.capture.control_flow.regions import run_region
from graphaudit.capture.control_flow.rows import LOOP
from graphaudit.capture.control_flow.select import facts_of, negated
from graphaudit.capture.control_flow.session import Guard, current
from graphaudit.capture.control_flow.sizes import is_never_fixed, is_size, limits
from graphaudit.capture.control_flow.varying import Varying, all_at_once
from graphaudit.capture.control_flow.world import World, closures
from graphaudit.control_flow import ControlFlow

_TRIED = 128  # masked passes of a `while` without a bound, in the hope that Python ends it


class Passes:
    """The passes of one loop. Once a tensor has decided that a pass runs, all later ones are nested in it.

    So what a running loop knows stays Python: a counter is a number on every pass, whichever of them is the last.
    """

    def __init__(self, *functions: Callable[..., Any] | None) -> None:
        self._functions = functions
        self._place = user_place()
        self.why = "Python ends it"
        self.moves = True  # whether Python has something of its own that is not what it was a pass before
        self._started: World | None = None
        self._entered: list[tuple[Number, World]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Passes:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if self._entered and kind is None:
            current().chose(ControlFlow.MASKS, self._place, self.masked, self.why)
        while self._entered:
            held, before = self._entered.pop()
            if kind is None:
                World.merge(held, before.now(), before.assuming_not(held))
        self._stack.close()

    @property
    def masked(self) -> int:
        """How many passes run under a mask so far."""
        return len(self._entered)

    def enter(self, held: Number) -> None:
        """From here on, everything happens only where `held` is true."""
        before = World([*closures(*self._functions), *current().roots()])
        self._stack.enter_context(current().region(held))
        before.assume(facts_of(held))
        self.moves = self._started is None or self._started.differs_in_python(self._started.now())
        self._started = before.now()
        self._entered.append((held, before))

    def end_at(self, bound: int, held: Number) -> None:
        """The loop would go on where `held` is true; nothing is claimed there, so it is taken for false."""
        self.why = f"a bound of {bound} was given"
        _guard(held, bound)
        World(closures(*self._functions)).assume(facts_of(negated(held)))


def for_stmt(
    iterated: Any,
    extra_test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    get_state: Callable[[], Any],
    set_state: Callable[[Any], None],
    names: tuple[str, ...],
    options: Mapping[str, Any],
) -> None:
    """`for item in iterated: body(item)`, ended by `extra_test` (a `break` or `return` before)."""
    del names, options
    source = Varying.of(iterated)
    if source is not None and extra_test is None and is_never_fixed(source.count):
        try:
            all_at_once(source, body, get_state, set_state)
            return
        except Dependent:
            pass  # one after the other, then
    if isinstance(iterated, DataRange):
        why = current().regions.why(user_place(), iterated.given)
        if why is not None:
            current().chose(ControlFlow.NATIVE, user_place(), None, why)
            iterated.run_region(extra_test, body, get_state, set_state)
            return
    with Passes(body, extra_test, get_state, set_state) as passes:
        if isinstance(iterated, DataRange):
            passes.why = iterated.why
        for running, item in _items(iterated) if source is None else _in_order(source):
            for test in (running, extra_test):
                going = True if test is None else test()
                if decides_on_data(going):
                    passes.enter(condition(going))
                elif not condition(going):
                    return
            if isinstance(item, Maybe):
                predicate(item.present, partial(body, item.value), lambda: None, body, get_state, set_state)
            else:
                body(item)


def while_stmt(
    test: Callable[[], Any],
    body: Callable[[], None],
    get_state: Callable[[], Any],
    set_state: Callable[[Any], None],
    names: tuple[str, ...],
    options: Mapping[str, Any],
) -> None:
    """`while test(): body()`. A loop that tensors end stays a loop where it was chosen to; else it runs masked up to
    its bound, with a guard for what is beyond."""
    del names, options
    place = user_place()
    bound = current().bounds.at(place)
    with Passes(test, body, get_state, set_state) as passes:
        for count in itertools.count():
            going = test()
            if decides_on_data(going):
                why = current().regions.why(place, bound)
                if why is not None and not passes.masked:
                    current().chose(ControlFlow.NATIVE, place, None, why)
                    run_region(test, body, get_state, set_state)
                    return
                held = condition(going)
                if count >= bound if bound is not None else held.seen == 0:
                    passes.end_at(count, held)
                    return
                passes.enter(held)
                if bound is None and (passes.masked > _TRIED or not passes.moves):
                    raise Refused("nothing bounds how often this loop runs", "loop-bound-unknown")
            elif not condition(going):
                return
            body()


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any, additional_inputs: Any = ()
) -> Any:
    """`torch.while_loop` as a masked loop. The functions are transpiled already."""
    carried = tuple(carried_inputs)

    def test() -> Any:
        return cond_fn(*carried, *additional_inputs)

    def body() -> None:
        nonlocal carried
        carried = tuple(body_fn(*carried, *additional_inputs))

    def unused(*_: Any) -> None:
        return None

    while_stmt(test, body, unused, unused, (), {})
    return carried


def _items(iterated: Any) -> Iterator[tuple[Callable[[], Any] | None, Any]]:
    if isinstance(iterated, DataRange):
        yield from iterated.passes()
        return
    if isinstance(iterated, torch.Tensor):
        if iterated.dim() == 0:
            raise TypeError("iteration over a 0-d tensor")
        iterated = iterated.unbind(0)
    if isinstance(iterated, Number):
        raise TypeError(f"'{iterated.kind.__name__}' object is not iterable")
    for item in iterated:
        yield None, item


def _in_order(source: Varying) -> Iterator[tuple[Callable[[], Any] | None, Any]]:
    """(whether this pass runs, its item) for passes that depend on one another, up to the bound, then a guard."""
    most = limits(source.count)[1]
    bound = most if most is not None else current().bounds.at(user_place())
    if bound is None:
        raise Refused("passes of this loop depend on one another, and nothing bounds how many there are", LOOP)
    for number in range(bound):
        runs = functools.partial(operator.lt, number, source.count)
        place = torch.sym_min(number, source.count - 1)  # type: ignore[no-untyped-call]
        yield runs, source.at(Number.of_size(place) if number else _first())
    if most is None:
        _guard(condition(bound < source.count), bound)


def _first() -> Number:
    return Number(torch.scalar_tensor(0, dtype=torch.int64), int, 0, 0)


class DataRange:
    """`range` with a number out of a tensor among its arguments."""

    def __init__(self, *arguments: Any) -> None:
        start, stop, step = (0, arguments[0], 1) if len(arguments) == 1 else (*arguments, 1)[:3]
        if isinstance(step, Number) or step <= 0:
            raise Refused("range() with a step that is negative or a tensor's value", "loop-bound-unknown")
        self._start, self._stop, self._step = (_whole(v) for v in (start, stop, step))
        self._place = user_place()

    def passes(self) -> Iterator[tuple[Callable[[], Any] | None, Any]]:
        """(whether this pass runs, its item), up to the bound; a guard follows where the bound is not proven."""
        known, bound = self._count_at_most(high_of), self.bound
        if bound is None:
            raise Refused("nothing bounds how often this loop runs", "loop-bound-unknown")
        for number in range(bound):
            item = self._start + number * self._step
            yield self._runs(item), item
        if known is None:
            last = self._start + bound * self._step
            _guard(condition(last < self._stop), bound)

    @property
    def given(self) -> int | None:
        """The most passes: proven, or given for its line."""
        known = self._count_at_most(high_of)
        return known if known is not None else current().bounds.at(self._place)

    @property
    def bound(self) -> int | None:
        """As `given`; else the most on the inputs tried, where an argument counts the passes."""
        return self.given if self.given is not None else self._count_at_most(seen_of)

    @property
    def why(self) -> str:
        """Where the bound comes from."""
        if self._count_at_most(high_of) is not None:
            return f"the code proves at most {self.bound}"
        return f"a bound of {self.bound} was given" if self.given is not None else f"{self.bound} were the most seen"

    def run_region(self, extra_test: Callable[[], Any] | None, body: Callable[[Any], None], *shared: Any) -> None:
        """The whole loop, however often it runs, as a region."""
        at = self._start

        def test() -> Any:
            return and_(self._runs(at), extra_test) if extra_test is not None else at < self._stop

        def step() -> None:
            nonlocal at
            item = at
            at = at + self._step
            body(item)

        run_region(test, step, *shared)

    def _runs(self, item: Any) -> Callable[[], Any]:
        return lambda: item < self._stop

    def _count_at_most(self, highest: Callable[[Any], int | None]) -> int | None:
        high = highest(self._stop)
        low = self._start.low if isinstance(self._start, Number) else self._start
        return None if high is None or low is None else max(0, -(-(high - low) // self._step))


def _whole(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = Number.of(value)
    if is_size(value):
        value = Number.of_size(value)
    if isinstance(value, Number):
        if value.kind is float:
            raise TypeError("'float' object cannot be interpreted as an integer")
        return as_int(value)
    return value


def _guard(held: Number, bound: int) -> None:
    """The loop would go on where `held` is true: the graph is not the policy there."""
    mask = current().mask
    fires = held.tensor if mask is None else torch.logical_and(mask, held.tensor)
    current().guards.append(Guard(fires, user_place(), bound))
