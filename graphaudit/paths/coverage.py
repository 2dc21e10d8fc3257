"""Which ways were walked, out of those that there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

from graphaudit.capture.control_flow import Bounds
from graphaudit.capture.source import Span as Region
from graphaudit.equivalence.verdict import PathCoverage, Uncovered
from graphaudit.findings import Place
from graphaudit.paths.dependence import Dependence
from graphaudit.paths.functions import Functions
from graphaudit.paths.recorder import Count, Run
from graphaudit.paths.sites import Site
from graphaudit.text import counted

Way = tuple[Any, str]  # a site's number, or the place of a builtin that asks tensors; the outcome

NONE, ONCE, MORE, END = "runs 0 times", "runs once", "runs more than once", "runs to its end"


class Coverage:
    """What the runs so far have walked."""

    def __init__(self, functions: Functions, bounds: Bounds) -> None:
        self.missed = 0  # inputs that eager runs on and that could not be followed
        self._functions = functions
        self._bounds = bounds
        self._dependence = Dependence(functions)
        self._walked: Counter[Way] = Counter()  # by how many runs
        self._reached: set[Any] = set()
        self._ways: list[Way] | None = None  # until the next run
        self._ranges: set[int] = set()  # loops over a range, or over what has no length
        self._regions: dict[Region, None] = {}
        self._unknown: set[Place] = set()

    def add(self, run: Run, shapes: Hashable) -> bool:
        """One more run, on inputs of the given shapes. Returns whether it walked a way that none did before."""
        self._dependence.add(run, shapes)
        self._reached |= {*run.outcomes, *run.counts}
        self._ways = None
        before = len(self._walked)
        self._walked.update(self.walked_by(run))
        self._regions |= dict.fromkeys(site for site in run.tensors if isinstance(site, Region))
        for number, counts in run.counts.items():
            if any(count.is_range for count in counts):
                self._ranges.add(number)
        self._unknown |= run.unknown
        return len(self._walked) > before

    def walked_by(self, run: Run) -> set[Way]:
        """The ways that one run walks."""
        decided = {(site, _word(o.truth)) for site, outcomes in run.outcomes.items() for o in outcomes}
        return decided | {(n, o) for n, counts in run.counts.items() for c in counts for o in self._outcomes(n, c)}

    def times(self, way: Way) -> int:
        """How many runs walked it."""
        return self._walked[way]

    def site(self, number: int) -> Site:
        """The site of that number."""
        return self._functions.sites.all[number]

    def decisions_in(self, loop: Site) -> list[Site]:
        """The decisions of a loop's condition, or those in its body."""
        inside = [s for s in self._functions.sites.all if s.file == loop.file and not s.loop]
        return loop.decides or [s for s in inside if loop.body[0] <= s.line <= loop.body[1]]

    def ways(self) -> list[Way]:
        """All ways that count, in the order of the source."""
        if self._ways is None:
            sites = sorted(self._functions.sites.all, key=lambda s: (s.file, s.span[0], s.span[2]))
            self._ways = [(site.number, outcome) for site in sites for outcome in self._ways_of(site)]
            self._ways += [(region, outcome) for region in self._regions for outcome in ("true", "false")]
        return self._ways

    def open(self) -> list[Way]:
        """The ways that no run walked."""
        return [way for way in self.ways() if way not in self._walked]

    def summary(self) -> PathCoverage:
        """For the certificate."""
        ways = self.ways()
        uncovered = [self._uncovered(*way) for way in ways if way not in self._walked]
        unknown = [f"{Path(p.file).name}:{p.line} decides in code whose source is not followed" for p in self._unknown]
        unknown += [f"{counted(self.missed, 'input')} could not be followed"] if self.missed else []
        return PathCoverage(
            covered=len(ways) - len(uncovered), total=len(ways), uncovered=uncovered, unknown=sorted(unknown)
        )

    def _ways_of(self, site: Site) -> tuple[str, ...]:
        if site.number not in self._reached:
            return ()  # what leads there is open, and says so
        if site.loop:
            return self._ways_of_loop(site)
        if site.number in self._conditions_of_loops() or not self._counts(site):
            return ()
        return tuple(_word(truth) for truth in (True, False) if truth not in site.raising)

    def _counts(self, site: Site) -> bool:
        if self._dependence.on_data(site):
            return True
        # `i < 8 and err > tol`: what a counter decides together with a tensor.
        others = (s for s in self._functions.sites.all if s.whole == site.whole and s is not site and not s.loop)
        return self._dependence.counts(site) and any(map(self._dependence.on_data, others))

    def _conditions_of_loops(self) -> set[int]:
        """A lone condition of a `while` is what the number of its passes says."""
        loops = (s for s in self._functions.sites.all if s.loop == "while" and len(s.decides) == 1)
        return {s.decides[0].number for s in loops}

    def _ways_of_loop(self, site: Site) -> tuple[str, ...]:
        bound = self._bounds.at(Place(site.file, site.body[0]))
        most = (f"runs {bound} times",) if bound is not None else ()
        varies = self._dependence.varies(site)
        if site.loop == "while":
            if any(map(self._counts, site.decides)):
                return (NONE, ONCE, MORE, *most)
            return (ONCE, MORE, *most) if varies else ()
        if site.number in self._ranges and (varies or self._dependence.on_data(site)) and not site.leaves:
            return (NONE, ONCE, MORE, *most)
        if not varies:
            return ()
        return (ONCE, MORE, END) if site.leaves else (NONE, ONCE, MORE, *most)

    def _outcomes(self, number: int, count: Count) -> Iterator[str]:
        yield NONE if count.number == 0 else ONCE if count.number == 1 else MORE
        bound = self._bounds.at(Place(self.site(number).file, self.site(number).body[0]))
        if bound is not None and count.number >= bound:
            yield f"runs {bound} times"
        if count.ended:
            yield END

    def _uncovered(self, site: Any, outcome: str) -> Uncovered:
        if isinstance(site, Region):
            return Uncovered(place=Place(site.file, site.line), expression="", outcome=outcome)
        found = self.site(site)
        return Uncovered(place=Place(found.file, found.line), expression=found.text, outcome=outcome)


def _word(truth: bool) -> str:
    return "true" if truth else "false"
