"""Closed intervals of numbers, and arithmetic on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

INF = math.inf


class Interval(NamedTuple):
    """All numbers from `low` to `high`, both included."""

    low: float
    high: float

    def has(self, number: float) -> bool:
        """Whether `number` is among them."""
        return self.low <= number <= self.high

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are finite."""
        return math.isfinite(self.low) and math.isfinite(self.high)


ANY = Interval(-INF, INF)
UNIT = Interval(0.0, 1.0)


def hull(intervals: Sequence[Interval]) -> Interval:
    """The smallest interval that holds all of them; any number where there are none."""
    return Interval(min(i.low for i in intervals), max(i.high for i in intervals)) if intervals else ANY


def times(a: float, b: float) -> float:
    """`a * b`; 0 times infinity is 0."""
    return 0.0 if a == 0 or b == 0 else a * b


def product(a: Interval, b: Interval) -> Interval:
    """What a number of one times a number of the other can be; 0 times infinity is 0."""
    ends = [times(x, y) for x in a for y in b]
    return Interval(min(ends), max(ends))


def guarded(function: Callable[[float], float], x: float) -> float:
    """`function(x)`, infinite where it overflows."""
    try:
        return function(x)
    except OverflowError:
        return INF


def inverse(given: Interval) -> Interval:
    """What one divided by a number of it can be; zero is not in it."""
    low = 0.0 if math.isinf(given.high) else 1 / given.high
    high = 0.0 if math.isinf(given.low) else 1 / given.low
    return Interval(low, high)


def even_power(given: Interval, exponent: float) -> Interval:
    """What the magnitude of a number of it can be, to the power of `exponent`."""
    ends = [guarded(lambda x: abs(x) ** exponent, end) for end in given]
    return Interval(0.0 if given.has(0) else min(ends), max(ends))
