"""Generators of Python and NumPy as sources of noise: the two global ones, and those that a policy holds. No torch.

A noise input with a `generator` holds what that generator itself gives, in its order; from the same state its draws
are the policy's.

                   python                numpy-legacy (RandomState)    numpy (Generator)
    uniform        random()              random_sample(shape)          random(shape)
    normal         gauss(0, 1)           standard_normal(shape)        standard_normal(shape)
    exponential    –                     standard_exponential(shape)   standard_exponential(shape)
    randint        randrange(low, high)  randint(low, high, shape)     integers(low, high, shape)
    permutation    shuffle(0 … n − 1)    permutation(n)                permutation(n)
    subset         sample(range(n), k)   choice(n, k, replace=False)   choice(n, k, replace=False)
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Source = random.Random | np.random.RandomState | np.random.Generator
Kind = Literal["python", "numpy-legacy", "numpy"]

GLOBAL = ("python", "numpy-legacy")  # noise that names one of these is drawn by the library's own generator
WHOLE = ("randint", "permutation", "subset")  # distributions of whole numbers
_BITS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")  # NumPy's bit generators


def kind_of(value: object) -> Kind | None:
    """Which of the three a generator is; None for everything else, subclasses that draw otherwise included."""
    if type(value) is random.Random:
        return "python"
    if type(value) is np.random.RandomState:
        return "numpy-legacy" if _bits(value) == "MT19937" else None
    return "numpy" if type(value) is np.random.Generator and _bits(value) in _BITS else None


def make(kind: str, state: Any) -> Source:
    """A generator of its own that goes on from a state. Raises KeyError, TypeError or ValueError for a wrong state."""
    if kind == "numpy":
        if state["bit_generator"] not in _BITS:
            raise ValueError(f"NumPy has no bit generator {state['bit_generator']!r}")
        source: Source = np.random.Generator(getattr(np.random, state["bit_generator"])(0))
    else:
        source = fresh(kind)
    set_state(source, state)
    return source


def fresh(generator: str) -> Source:
    """A stream of its own of the kind of a global generator."""
    return random.Random() if generator == "python" else np.random.RandomState(0)


def begin(source: Source, seed: int) -> None:
    """Start over as `random.seed(seed)`, `numpy.random.seed(seed)` and `default_rng(seed)` do; the legacy generator
    takes 32 bits."""
    if isinstance(source, np.random.Generator):
        source.bit_generator.state = type(source.bit_generator)(seed).state
    else:
        source.seed(seed if isinstance(source, random.Random) else seed % 2**32)


def global_source(generator: str) -> Source:
    """The one that the functions of the module `random`, or of `numpy.random`, draw from."""
    source: Source = random._inst if generator == "python" else np.random.mtrand._rand
    return source


def draw(source: Source, distribution: str, shape: Sequence[int], parameters: Mapping[str, float]) -> Array:
    """The next numbers, float64 or int64."""
    low, high = int(parameters.get("low", 0)), int(parameters.get("high", 1))
    if isinstance(source, random.Random):
        return _python(source, distribution, tuple(shape), low, high)
    size = tuple(shape)
    whole = source.integers if isinstance(source, np.random.Generator) else source.randint
    uniform = source.random if isinstance(source, np.random.Generator) else source.random_sample
    drawn: dict[str, Callable[[], Any]] = {
        "uniform": lambda: uniform(size),
        "normal": lambda: source.standard_normal(size),
        "exponential": lambda: source.standard_exponential(size),
        "randint": lambda: whole(low, high, size=size),
        "permutation": lambda: source.permutation(size[0]),
        "subset": lambda: source.choice(high, size[0], replace=False),
    }
    return np.asarray(drawn[distribution]())


def get_state(source: Source) -> Any:
    """Where a stream stands, as values that JSON holds."""
    if isinstance(source, random.Random):
        return [*source.getstate()]
    if isinstance(source, np.random.Generator):
        return _plain(source.bit_generator.state)
    state: Any = source.get_state()
    name, key, position, has_normal, normal = state
    return [name, [int(k) for k in key], int(position), int(has_normal), float(normal)]


def set_state(source: Source, state: Any) -> None:
    """Go on from what `get_state` returned."""
    if isinstance(source, random.Random):
        source.setstate((state[0], tuple(state[1]), state[2]))
    elif isinstance(source, np.random.Generator):
        width = np.uint32 if state["bit_generator"] == "MT19937" else np.uint64
        source.bit_generator.state = _packed(state, width)
    else:
        source.set_state(tuple(state))


def _python(source: random.Random, distribution: str, shape: tuple[int, ...], low: int, high: int) -> Array:
    if distribution == "permutation":
        order = list(range(shape[0]))
        source.shuffle(order)
        return np.array(order, dtype=np.int64)
    if distribution == "subset":
        return np.array(source.sample(range(high), shape[0]), dtype=np.int64)
    one: Callable[[], float] = {
        "uniform": source.random,
        "normal": lambda: source.gauss(0.0, 1.0),
        "randint": lambda: source.randrange(low, high),
    }[distribution]
    dtype = np.int64 if distribution == "randint" else np.float64
    return np.array([one() for _ in range(math.prod(shape))], dtype=dtype).reshape(shape)


def _bits(source: Any) -> str:
    bits = source.bit_generator if isinstance(source, np.random.Generator) else source._bit_generator
    return type(bits).__name__


def _plain(value: Any) -> Any:
    """A bit generator's state with its words, of up to 128 bits, as hexadecimal text."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return [hex(item) for item in value.tolist()]
    return value if isinstance(value, str) else hex(value)


def _packed(value: Any, width: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: item if key == "bit_generator" else _packed(item, width) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return np.array([int(item, 16) for item in value], dtype=width)
    return int(value, 16)
