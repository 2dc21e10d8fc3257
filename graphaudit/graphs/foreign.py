"""The global generators of Python and NumPy as sources of noise. Imports no torch.

A noise input with a `generator` holds what that library's own generator gives, in its order; under the same seed its
draws are the policy's.

    python         uniform: random(); normal: gauss(0, 1); randint: randrange(low, high)
    numpy-legacy   uniform: random_sample(); normal: standard_normal(); exponential: standard_exponential();
                   randint: randint(low, high)
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Source = random.Random | np.random.RandomState
Foreign = Literal["python", "numpy-legacy"]


def make(generator: str, seed: int) -> Source:
    """A stream of its own, as `random.seed(seed)` or `numpy.random.seed(seed)` starts it; NumPy takes 32 bits."""
    return random.Random(seed) if generator == "python" else np.random.RandomState(seed % 2**32)


def global_source(generator: str) -> Source:
    """The one that the functions of the module `random`, or of `numpy.random`, draw from."""
    source: Source = random._inst if generator == "python" else np.random.mtrand._rand
    return source


def draw(source: Source, distribution: str, shape: Sequence[int], parameters: Mapping[str, float]) -> Array:
    """The next numbers, float64 or int64."""
    low, high = int(parameters.get("low", 0)), int(parameters.get("high", 1))
    if isinstance(source, random.Random):
        one: Callable[[], float] = {
            "uniform": source.random,
            "normal": lambda: source.gauss(0.0, 1.0),
            "randint": lambda: source.randrange(low, high),
        }[distribution]
        dtype = np.int64 if distribution == "randint" else np.float64
        return np.array([one() for _ in range(math.prod(shape))], dtype=dtype).reshape(shape)
    several: Callable[[], Any] = {
        "uniform": lambda: source.random_sample(tuple(shape)),
        "normal": lambda: source.standard_normal(tuple(shape)),
        "exponential": lambda: source.standard_exponential(tuple(shape)),
        "randint": lambda: source.randint(low, high, size=tuple(shape)),
    }[distribution]
    return np.asarray(several())


def get_state(source: Source) -> Any:
    """Where a stream stands, as values that JSON holds."""
    if isinstance(source, random.Random):
        return [*source.getstate()]
    name, key, position, has_normal, normal = source.get_state()
    return [name, [int(k) for k in key], int(position), int(has_normal), float(normal)]


def set_state(source: Source, state: Any) -> None:
    """Go on from what `get_state` returned."""
    if isinstance(source, random.Random):
        source.setstate((state[0], tuple(state[1]), state[2]))
    else:
        source.set_state(tuple(state))
