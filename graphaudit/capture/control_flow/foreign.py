"""Draws from the global generators of Python and NumPy: numbers and arrays that a graph draws when it runs.

Python computes with what its generator gives in float64, and so does the twin: `random.uniform(a, b)` is
`a + (b − a)·random()`, as in Lib/random.py, and `numpy.random.normal(mean, std, size)` is `mean + std·gauss()`, as in
numpy/random/src/legacy/legacy-distributions.c.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from graphaudit.capture.control_flow.arrays import array_of
from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.control_flow.session import current
from graphaudit.capture.control_flow.tables import get_item
from graphaudit.graphs.foreign_draws import draw


def twin(function: Any) -> Callable[..., Any] | None:
    """What to call in place of a function of `random` or `numpy.random`."""
    return _TWINS.get(function)


def _drawn(source: str, distribution: str, size: Any = None, low: int = 0, high: int = 1) -> Any:
    """A number where there is no size, else an array."""
    current().note_draw()
    shape = [] if size is None else [size] if isinstance(size, int) else list(size)
    tensor = draw(source, distribution, shape, low, high)
    if size is not None:
        return array_of(tensor)
    is_whole = distribution == "randint"
    return Number(tensor, int, low, high - 1) if is_whole else Number(tensor, float)


def _python(distribution: str, low: int = 0, high: int = 1) -> Any:
    return _drawn("python", distribution, None, low, high)


def _numpy(distribution: str, size: Any = None, low: int = 0, high: int = 1) -> Any:
    return _drawn("numpy-legacy", distribution, size, low, high)


def _below(count: Any) -> Any:
    if not isinstance(count, int) or count < 1:
        raise Refused("the range of a draw from Python's random is not a number that is known beforehand")
    return _python("randint", 0, count)


def _randrange(start: int, stop: int | None = None, step: int = 1) -> Any:
    steps = range(start) if stop is None else range(start, stop, step)
    return steps.start + steps.step * _below(len(steps))


def _choice(values: Sequence[Any]) -> Any:
    return get_item(values, _below(len(values)))


def _numpy_randint(low: int, high: int | None = None, size: Any = None, dtype: Any = int) -> Any:
    if np.dtype(dtype) != np.int64 or not all(isinstance(v, int | None) for v in (low, high)):
        raise Refused("numpy.random.randint draws another dtype than int64, or limits that are not known beforehand")
    first, last = (0, low) if high is None else (low, high)
    return _numpy("randint", size, first, last)


def _numpy_choice(a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
    if p is not None or (size is not None and not replace):
        raise Refused("numpy.random.choice with probabilities or without replacement")
    if isinstance(a, int):
        return _numpy("randint", size, 0, a)
    index = _numpy("randint", size, 0, len(a))
    return get_item(list(a), index) if size is None else array_of(torch.as_tensor(np.asarray(a)))[index]


# Functions of the modules are methods of their one global generator.
_TWINS: dict[Any, Callable[..., Any]] = {
    random.random: lambda: _python("uniform"),
    random.uniform: lambda a, b: a + (b - a) * _python("uniform"),
    random.gauss: lambda mu=0.0, sigma=1.0: mu + _python("normal") * sigma,
    random.randrange: _randrange,
    random.randint: lambda a, b: a + _below(b - a + 1),
    random.choice: _choice,
    np.random.rand: lambda *shape: _numpy("uniform", shape or None),
    np.random.randn: lambda *shape: _numpy("normal", shape or None),
    np.random.standard_normal: lambda size=None: _numpy("normal", size),
    np.random.standard_exponential: lambda size=None: _numpy("exponential", size),
    np.random.exponential: lambda scale=1.0, size=None: scale * _numpy("exponential", size),
    np.random.normal: lambda loc=0.0, scale=1.0, size=None: loc + scale * _numpy("normal", size),
    np.random.uniform: lambda low=0.0, high=1.0, size=None: low + (high - low) * _numpy("uniform", size),
    np.random.randint: _numpy_randint,
    np.random.choice: _numpy_choice,
    **dict.fromkeys(
        (np.random.random, np.random.random_sample, np.random.ranf, np.random.sample),
        lambda size=None: _numpy("uniform", size),
    ),
}
