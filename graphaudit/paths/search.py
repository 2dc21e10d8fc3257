"""Looks for inputs that walk the ways through a policy that its samples leave out.

From a sample that reaches a decision, towards the other outcome: Newton steps on the margin of the comparison (with
the decisions before it held where they are), then moves of single elements and tensors, then steps at random that
shrink the margin. Last, each threshold is approached from both sides by bisection, so that a threshold that is a
little off is seen. The same samples and the same seed give the same inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from graphaudit.capture.control_flow import Bounds
from graphaudit.equivalence.draws import Mode
from graphaudit.equivalence.inputs import Drawer, Sample
from graphaudit.equivalence.verdict import PathCoverage
from graphaudit.paths.coverage import MORE, NONE, ONCE, Coverage, Way
from graphaudit.paths.moves import Space
from graphaudit.paths.recorder import Outcome, Run
from graphaudit.paths.walker import Walker
from graphaudit.policy import Policy
from graphaudit.quiet import quiet

_WORK = 40_000  # calls of torch in a search over a small policy
_SMALL = 2_000_000  # parameters; larger policies get fewer, a tenth at least
_ROUNDS = 3
_STEPS = 12  # of Newton's method
_HELD = 6  # decisions that a step leaves as they are
_BISECTIONS = 8
_AT_LEAST = 4  # inputs that walk a way
_VARIANTS = 16  # tried, until there are as many
_FAR = 4.0  # times the largest value seen


@dataclass(frozen=True)
class Walked:
    """The inputs found, in order, and which ways they and the given samples walk."""

    found: list[Sample]
    coverage: PathCoverage


@dataclass(frozen=True)
class _Point:
    sample: Sample
    run: Run


@dataclass(frozen=True)
class _Goal:
    """The outcome number `index` of a decision, to come out as `truth`."""

    site: Any
    index: int
    truth: bool

    def of(self, run: Run) -> Outcome | None:
        outcomes = run.outcomes.get(self.site, [])
        return outcomes[self.index] if self.index < len(outcomes) else None

    def distance(self, run: Run) -> float:
        """How far a run is from it; 0 where it is reached, infinite where nobody knows."""
        outcome = self.of(run)
        if outcome is None:
            return float("inf")
        return 0.0 if outcome.truth is self.truth else outcome.distance


def walk(policy: Policy, samples: Sequence[Sample], seed: int = 0) -> Walked:
    """Find inputs for the ways that `samples`, which the policy runs on, leave open. They are numbered on from them."""
    walker = Walker(policy)
    if not walker.walks:
        return Walked([], PathCoverage(unknown=["the module cannot be copied, so its paths are not followed"]))
    with quiet():  # what the policy prints, it printed when it was compared
        search = _Search(policy, walker, samples, seed)
        search.run()
    return Walked(search.found, search.coverage.summary())


class _Search:
    def __init__(self, policy: Policy, walker: Walker, samples: Sequence[Sample], seed: int) -> None:
        self.found: list[Sample] = []
        self.coverage = Coverage(walker.recorder.functions, Bounds.parse(policy.loop_bounds))
        self._walker = walker
        self._drawer = Drawer(policy, [s for s in samples if s.is_own], seed)
        self._space = Space(self._drawer.seen)
        self._generator = torch.Generator().manual_seed(seed)
        self._next = len(samples)
        self._points: list[_Point] = []
        self._largest = [_largest(t) for t in zip(*(s.tensors for s in samples if s.is_own))]
        work = int(_WORK * max(0.1, min(1.0, _SMALL / max(policy.parameter_count, 1))))
        for number, sample in enumerate(samples):
            if sample.is_own or walker.work < work:
                run = walker.run(sample, number)
                if run is not None:
                    self._keep(sample, run)
                else:
                    self.coverage.missed += 1
        self._limit = walker.work + work

    def run(self) -> None:
        """Pursue every open way, then close in on every threshold."""
        for _ in range(_ROUNDS):
            open_ = self.coverage.open()
            for way in open_:
                if way in self.coverage.open():
                    self._pursue(way, self._left() // (2 * len(open_)))
            if self.coverage.open() == open_:
                break  # what is still open was tried from everywhere
        self._thicken()
        self._close_in()

    def _left(self) -> int:
        return self._limit - self._walker.work

    def _keep(self, sample: Sample, run: Run) -> None:
        self.coverage.add(run, tuple(tuple(t.shape) for t in sample.tensors))
        self._points.append(_Point(sample, run))
        self._space.named |= self._walker.recorder.named

    def _try(self, tensors: Sequence[torch.Tensor], why: str) -> _Point | None:
        """Run an input; it is kept where it walks an open way. None where the policy raises on it."""
        far = any(_largest([t]) > _FAR * seen for t, seen in zip(tensors, self._largest) if t.is_floating_point())
        origin = f"path({len(self.found)}, {why})"
        sample = self._drawer.sample(tensors, origin, Mode.TENFOLD if far else None)
        run = self._walker.run(sample, self._next)
        if run is None:
            return None
        if self.coverage.walked_by(run) & set(self.coverage.open()):
            self._accept(sample, run)
        return _Point(sample, run)

    def _accept(self, sample: Sample, run: Run) -> None:
        self._keep(sample, run)
        self.found.append(sample)
        self._next += 1

    def _pursue(self, way: Way, budget: int) -> None:
        limit = self._left() - budget
        why = self._place(way[0])
        goals = sorted(self._goals(way), key=lambda pair: pair[0].distance(pair[1].run))
        for goal, point in goals[:3]:
            if way not in self.coverage.open() or self._left() <= limit:
                return
            self._solve(goal, point, way, why)
        parents = [point for _, point in goals[:2]] or self._points[:2]
        for parent in parents:
            for tensors in self._space.moves(parent.sample.tensors, self._generator):
                if way not in self.coverage.open() or self._left() <= limit:
                    return
                self._try(tensors, why)
        for goal, point in goals[:2]:
            self._climb(goal, point, way, why, limit)

    def _goals(self, way: Way) -> Iterator[tuple[_Goal, _Point]]:
        """Outcomes whose flip would walk the way, each with a point at which it is to be flipped."""
        for point in self._points:
            if way[1] in ("true", "false"):
                wanted = way[1] == "true"
                outcomes = point.run.outcomes.get(way[0], [])
                yield from ((_Goal(way[0], i, wanted), point) for i in range(min(len(outcomes), 4)))
            else:
                yield from self._loop_goals(way, point)

    def _loop_goals(self, way: Way, point: _Point) -> Iterator[tuple[_Goal, _Point]]:
        loop = self.coverage.site(way[0])
        wanted = {NONE: 0, ONCE: 1, MORE: 2}.get(way[1])
        for least in (1, 2):
            goal = _Goal((way[0], least), 0, wanted is None or wanted >= least)
            outcome = goal.of(point.run)
            if outcome is not None and outcome.truth is not goal.truth:
                yield goal, point
        for count in point.run.counts.get(way[0], [])[:1]:
            index = count.number - (0 if loop.decides else 1)
            if wanted is not None and count.number > wanted:
                index = wanted - (0 if loop.decides else 1)
            for site in self.coverage.decisions_in(loop):
                outcomes = point.run.outcomes.get(site.number, [])
                if 0 <= index < len(outcomes):
                    yield _Goal(site.number, index, not outcomes[index].truth), point

    def _solve(self, goal: _Goal, point: _Point, way: Way, why: str) -> None:
        """Newton's method on the margin of the decision."""
        for _ in range(_STEPS):
            best = point
            for floats in self._steps(goal, point):
                child = self._try(self._space.with_floats(point.sample.tensors, floats), why)
                if way not in self.coverage.open():
                    return
                if child is not None and goal.distance(child.run) < goal.distance(best.run):
                    best = child
            if best is point or self._left() <= 0:
                return
            point = best

    def _steps(self, goal: _Goal, point: _Point) -> Iterator[torch.Tensor]:
        """Where the margin would be on the other side, were it linear: just beyond, beyond, exactly on the edge."""
        tensors = point.sample.tensors
        run = self._walker.run(point.sample, self._next, gradients=True)
        outcome = goal.of(run) if run is not None else None
        leaves = self._walker.leaves
        margin = outcome.margin if outcome is not None else None
        if run is None or outcome is None or not isinstance(margin, torch.Tensor) or len(leaves) != len(tensors):
            return
        gradient = self._gradient(margin, tensors)
        if gradient is None:
            return
        now, start = float(margin.detach()), self._space.floats(tensors)
        whole = 1.0 if _is_whole(outcome) else 0.0
        side = 1 if goal.truth else -1
        near, beyond = (side * max(abs(now) * part, 1e-30, whole) for part in (1e-3, 0.1))
        yield start + gradient * ((near - now) / gradient.dot(gradient))
        held = self._held(run, outcome, tensors)
        if held:
            rows = torch.stack([gradient, *held])
            wanted = torch.zeros(len(rows), dtype=torch.float64)
            wanted[0] = beyond - now
            yield start + torch.linalg.pinv(rows) @ wanted
        yield start + gradient * ((beyond - now) / gradient.dot(gradient))
        yield start - gradient * (now / gradient.dot(gradient))
        yield start + gradient * ((beyond - now) / 4 / gradient.dot(gradient))

    def _held(self, run: Run, but: Outcome, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        margins = [o.margin for outcomes in run.outcomes.values() for o in outcomes[:2] if o is not but]
        found = (self._gradient(m, tensors) for m in margins if isinstance(m, torch.Tensor) and m.requires_grad)
        return [row for row in islice(found, _HELD) if row is not None]

    def _gradient(self, margin: torch.Tensor, tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
        row = self._walker.derivatives(margin)
        row = self._space.selected(row, tensors) if row is not None else None
        return row if row is not None and bool(row.any()) else None

    def _climb(self, goal: _Goal, point: _Point, way: Way, why: str, limit: int) -> None:
        """Steps at random that shrink the margin."""
        start = self._space.floats(point.sample.tensors)
        size = float(start.abs().mean()) + 1.0 if start.numel() else 0.0
        while start.numel() and self._left() > limit and goal.distance(point.run) < float("inf"):
            step = torch.randn(start.shape, generator=self._generator, dtype=torch.float64) * size
            child = self._try(self._space.with_floats(point.sample.tensors, start + step), why)
            if way not in self.coverage.open():
                return
            if child is not None and goal.distance(child.run) < goal.distance(point.run):
                point, start, size = child, self._space.floats(child.sample.tensors), size * 1.5
            else:
                size *= 0.8

    def _thicken(self) -> None:
        """Let more than one input walk each way: on a single one, a wrong result may be right by chance."""
        for way in self.coverage.ways():
            walks = [p for p in self._points if way in self.coverage.walked_by(p.run)][-1:]
            for number in range(_VARIANTS if walks else 0):
                if self.coverage.times(way) >= _AT_LEAST or self._left() <= 0:
                    break
                tensors = self._space.variant(walks[0].sample.tensors, self._drawer.draw(number).tensors, number)
                point = self._try(tensors, self._place(way[0]))
                if point is not None and way in self.coverage.walked_by(point.run):
                    self._accept(point.sample, point.run)

    def _close_in(self) -> None:
        """Approach each threshold that one decision in a run compares with, from both sides."""
        sites = dict.fromkeys(site for site, _ in self.coverage.ways())
        for site in sites:
            sides = [self._nearest(site, truth) for truth in (True, False)]
            pair = next(((a, b) for a in sides[0] for b in sides[1] if self._is_segment(a, b)), None)
            if pair is not None and self._left() > 0:
                self._bisect(site, *pair)

    def _nearest(self, site: Any, truth: bool) -> list[_Point]:
        goal = _Goal(site, 0, not truth)
        points = [p for p in self._points if len(p.run.outcomes.get(site, [])) == 1]
        points = [p for p in points if 0 < goal.distance(p.run) < float("inf")]
        return sorted(points, key=lambda p: goal.distance(p.run))[:4]

    def _is_segment(self, one: _Point, other: _Point) -> bool:
        same = all(a.shape == b.shape for a, b in zip(one.sample.tensors, other.sample.tensors))
        return same and self._space.floats(one.sample.tensors).numel() > 0

    def _bisect(self, site: Any, one: _Point, other: _Point) -> None:
        why = f"near {self._place(site)}"
        ends = [one, other]
        for _ in range(_BISECTIONS):
            middle = (self._space.floats(ends[0].sample.tensors) + self._space.floats(ends[1].sample.tensors)) / 2
            point = self._try(self._space.with_floats(one.sample.tensors, middle), why)
            outcomes = point.run.outcomes.get(site, []) if point is not None else []
            if point is None or len(outcomes) != 1:
                return
            ends[0 if outcomes[0].truth else 1] = point
        for end, given in zip(ends, (one, other)):
            if end is not given and not any(s is end.sample for s in self.found):
                self._accept(replace(end.sample, origin=f"path({len(self.found)}, {why})"), end.run)

    def _place(self, site: Any) -> str:
        found = self.coverage.site(site) if isinstance(site, int) else site
        return f"{Path(found.file).name}:{found.line}"


def _largest(tensors: Sequence[torch.Tensor]) -> float:
    """The largest finite magnitude."""
    values = [t[t.isfinite()].abs() for t in tensors if t.is_floating_point()]
    return max((float(v.max()) for v in values if v.numel()), default=0.0)


def _is_whole(outcome: Outcome) -> bool:
    """Whether integers were compared, which a step has to cross by a whole number."""
    return outcome.is_numeric and all(isinstance(v, int) for v in outcome.values)
