"""Draws from generators of Python and NumPy, global or held by the policy: numbers and arrays that a graph draws when
it runs.

Python computes with what its generator gives in float64, and so does the twin: `random.uniform(a, b)` is
`a + (b − a)·random()` and `random.choices` bisects cumulative weights, as in Lib/random.py;
`numpy.random.normal(mean, std, size)` is `mean + std·gauss()`, as in numpy/random/src/legacy/legacy-distributions.c;
`choice(n, p=p)` searches the cumulative sums of p, as in numpy/random/mtrand.pyx and _generator.pyx.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from graphaudit.capture.control_flow.arrays import Array, array_of, tensor_of
from graphaudit.capture.control_flow.numbers import Number, as_int
from graphaudit.capture.control_flow.refusal import UNDRAWN, Refused
from graphaudit.capture.control_flow.session import current
from graphaudit.capture.control_flow.tables import get_item
from graphaudit.graphs import foreign
from graphaudit.graphs.foreign_draws import draw

_GENERATORS = (random.Random, np.random.RandomState, np.random.Generator)
_SEEDING = ("seed", "setstate", "set_state")


class _Undrawn(Refused):
    """A draw that no noise input replays: a graph could only hold what it gave at capture."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, UNDRAWN)


def twin(function: Any) -> Callable[..., Any] | None:
    """What to call in place of a generator's method, or of a function of `random` or `numpy.random`.

    Raises Refused for what has no twin, where the generator is one that the policy holds.
    """
    owner, method = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if function in (np.random.ranf, np.random.sample):
        owner, method = foreign.global_source("numpy-legacy"), "random_sample"
    if not isinstance(owner, _GENERATORS):
        return None
    source, kind = _source(owner), foreign.kind_of(owner)
    if source is None or kind is None:
        return None
    if method in _SEEDING:
        raise _Undrawn(f"forward itself sets the state of {source}, whose draws would be the same in every call")
    made = (_PYTHON if kind == "python" else _NUMPY).get(method)
    if made is None and source not in foreign.GLOBAL and callable(getattr(owner, method, None)):
        raise _Undrawn(f"{method} of {source} is none of the draws that a noise input replays")
    return functools.partial(made, source) if made is not None else None


def _source(owner: Any) -> str | None:
    """How noise calls a generator; None for one that forward has made."""
    return next((name for name in foreign.GLOBAL if foreign.global_source(name) is owner), None) or (
        current().generators.name_of(owner)
    )


def _drawn(source: str, distribution: str, size: Any = None, low: int = 0, high: int = 1) -> Any:
    """A number where there is no size, else an array."""
    shape = [] if size is None else [size] if isinstance(size, int | torch.SymInt) else list(size)
    if not all(isinstance(d, int | torch.SymInt) for d in shape):
        raise _Undrawn("how many numbers are drawn here hangs on a tensor's value")
    with current().drawing():
        tensor = draw(source, distribution, shape, low, high)
    if size is not None:
        return array_of(tensor)
    return Number(tensor, int, low, high - 1) if distribution in foreign.WHOLE else Number(tensor, float)


def _uniform(source: str) -> Any:
    return _drawn(source, "uniform")


def _below(source: str, count: Any) -> Any:
    if not isinstance(count, int) or count < 1:
        raise _Undrawn("the range of a draw from Python's random is not a number that is known beforehand")
    return _drawn(source, "randint", None, 0, count)


def _randrange(source: str, start: int, stop: int | None = None, step: int = 1) -> Any:
    steps = range(start) if stop is None else range(start, stop, step)
    return steps.start + steps.step * _below(source, len(steps))


def _choices(
    source: str, population: Sequence[Any], weights: Any = None, *, cum_weights: Any = None, k: int = 1
) -> Any:
    last = len(population) - 1
    if weights is not None:
        cum_weights = list(itertools.accumulate(weights))

    def index() -> Any:
        if cum_weights is None:
            place = torch.floor(_uniform(source).wide * (last + 1)).to(torch.int64)
            return Number(place, int, 0, last)
        point = _uniform(source) * (cum_weights[-1] + 0.0)
        passed: list[Any] = [as_int(point >= edge) for edge in cum_weights[:last]]
        return sum(passed[1:], passed[0]) if passed else 0

    return [get_item(population, index()) for _ in range(k)]


def _sample(source: str, population: Sequence[Any], k: int, *, counts: Any = None) -> Any:
    if counts is not None:
        raise _Undrawn("random.sample with counts")
    drawn = tensor_of(_drawn(source, "subset", k, 0, len(population)))
    return [get_item(population, Number(drawn[i], int, 0, len(population) - 1)) for i in range(k)]


def _shuffle(source: str, items: list[Any]) -> None:
    order = tensor_of(_drawn(source, "permutation", len(items), 0, len(items)))
    before = list(items)
    items[:] = [get_item(before, Number(order[i], int, 0, len(before) - 1)) for i in range(len(before))]


def _expovariate(source: str, lambd: Any = 1.0) -> Any:
    return -Number(torch.log(1 - _uniform(source).wide), float) / lambd


def _whole(source: str, low: Any, high: Any, size: Any, dtype: Any) -> Any:
    if np.dtype(dtype) != np.int64 or not all(isinstance(v, int | None) for v in (low, high)):
        raise _Undrawn("whole numbers of another dtype than int64, or between limits that are not known beforehand")
    first, last = (0, low) if high is None else (low, high)
    return _drawn(source, "randint", size, first, last)


def _integers(
    source: str, low: int, high: int | None = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
) -> Any:
    if not endpoint:
        return _whole(source, low, high, size, dtype)
    return _whole(source, 0 if high is None else low, (low if high is None else high) + 1, size, dtype)


def _choice(
    source: str, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
) -> Any:
    count = a if isinstance(a, int) else len(a)
    if axis or not shuffle or (not replace and (p is not None or not isinstance(size, int))):
        raise _Undrawn("choice without replacement by probabilities, along an axis, or in several dimensions")
    if not replace:
        index = _drawn(source, "subset", size, 0, count)
    elif p is None:
        index = _drawn(source, "randint", size, 0, count)
    else:
        index = _searched(_drawn(source, "uniform", size), p, count)
    if isinstance(a, int):
        return index
    return get_item(list(a), index) if size is None else array_of(torch.as_tensor(_plain(a)))[index]


def _searched(uniform: Any, p: Any, count: int) -> Any:
    """Where u falls among the cumulative sums of p, in float64."""
    plain = _plain(p)
    chances = plain if isinstance(plain, torch.Tensor) else torch.stack([torch.as_tensor(c).double() for c in p])
    sums = torch.cumsum(chances.to(torch.float64), 0)
    sums = sums / sums[-1]
    at = uniform.wide if isinstance(uniform, Number) else tensor_of(uniform)
    index = (sums <= at.unsqueeze(-1)).sum(-1)
    return Number(index, int, 0, count - 1) if isinstance(uniform, Number) else array_of(index)


def _permutation(source: str, x: Any) -> Any:
    count = x if isinstance(x, int) else len(x)
    order = _drawn(source, "permutation", count, 0, count)
    return order if isinstance(x, int) else array_of(torch.as_tensor(_plain(x)))[order]


def _plain(values: Any) -> Any:
    """A tensor, or an array of NumPy's own."""
    if isinstance(values, Array | torch.Tensor):
        return tensor_of(values)
    if any(isinstance(v, Number) for v in values):
        return torch.stack([torch.as_tensor(v.wide if isinstance(v, Number) else v).double() for v in values])
    return torch.as_tensor(np.asarray(values))


def _plainly(distribution: str) -> Callable[..., Any]:
    """A draw in double precision, by NumPy's default method."""

    def drawn(source: str, size: Any = None, dtype: Any = np.float64, method: str = "zig", out: Any = None) -> Any:
        if np.dtype(dtype) != np.float64 or method != "zig" or out is not None:
            raise _Undrawn(f"{distribution} numbers in another dtype than float64, by another method, or into an array")
        return _drawn(source, distribution, size)

    return drawn


# By method; functions of the modules are methods of their one global generator.
_PYTHON: dict[str, Callable[..., Any]] = {
    "random": _uniform,
    "uniform": lambda source, a, b: a + (b - a) * _uniform(source),
    "gauss": lambda source, mu=0.0, sigma=1.0: mu + _drawn(source, "normal") * sigma,
    "randrange": _randrange,
    "randint": lambda source, a, b: a + _below(source, b - a + 1),
    "choice": lambda source, values: get_item(values, _below(source, len(values))),
    "choices": _choices,
    "sample": _sample,
    "shuffle": _shuffle,
    "expovariate": _expovariate,
}
_NUMPY: dict[str, Callable[..., Any]] = {
    "rand": lambda source, *shape: _drawn(source, "uniform", shape or None),
    "randn": lambda source, *shape: _drawn(source, "normal", shape or None),
    **dict.fromkeys(("random", "random_sample"), _plainly("uniform")),
    "standard_normal": _plainly("normal"),
    "standard_exponential": _plainly("exponential"),
    "exponential": lambda source, scale=1.0, size=None: scale * _drawn(source, "exponential", size),
    "normal": lambda source, loc=0.0, scale=1.0, size=None: loc + scale * _drawn(source, "normal", size),
    "uniform": lambda source, low=0.0, high=1.0, size=None: low + (high - low) * _drawn(source, "uniform", size),
    "randint": lambda source, low, high=None, size=None, dtype=int: _whole(source, low, high, size, dtype),
    "integers": _integers,
    "choice": _choice,
    "permutation": _permutation,
}
