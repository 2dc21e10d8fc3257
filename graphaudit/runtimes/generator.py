"""PyTorch's CPU generator on NumPy alone: under the same seed, the numbers that PyTorch draws. Imports no torch.

PyTorch's generator is MT19937 (aten/src/ATen/core/MT19937RNGEngine.h), seeded as by Matsumoto and Nishimura and as by
NumPy's legacy seeding. What its distributions make of the words (aten/src/ATen/core/DistributionsHelper.h,
TransformationHelper.h, aten/src/ATen/native/cpu/DistributionTemplates.h; compared with torch 2.13):

    uniform        float32: the low 24 bits of a word; float64: the low 53 bits of two words, the first on top
    exponential    −log1p(−u) with u in float64
    randint        a word modulo the range; two words from a range of 2^28 on
    permutation    Fisher–Yates from the front, a word modulo what is left for each place but the last
    normal         fewer than 16: Box–Muller in float64, in pairs, the second of a pair kept for the next draw;
                   otherwise blocks of 16, eight cosines and then eight sines, the last 16 drawn again where they are no
                   whole block. In float32 with PyTorch's own polynomials for log, sine and cosine, which are those of
                   its AVX2 kernel (aten/src/ATen/native/cpu/avx_mathfun.h, after Cephes)

All are the same to the last bit on a CPU with AVX2; see docs/randomness.md for what was compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphaudit.runtimes.box_muller import box_muller

Array = NDArray[Any]

_BLOCK = 16
_WIDE_RANGE = 2**28
_AHEAD = 4096  # normal numbers that are made together


class Generator:
    """A stream of random numbers, as `torch.Generator().manual_seed(seed)` gives on the CPU."""

    def __init__(self, seed: int = 0) -> None:
        self._words = np.random.MT19937()
        self._next_normal: float | None = None
        self._ahead = _Ahead()
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Start over; of the seed PyTorch uses the low 32 bits."""
        state: Any = np.random.RandomState(seed % 2**32).get_state(legacy=False)
        self._words.state = {"bit_generator": "MT19937", "state": state["state"]}
        self._next_normal, self._ahead = None, _Ahead()

    def get_state(self) -> dict[str, Any]:
        """Where the stream stands, as values that JSON holds."""
        self._settle()
        inner: Mapping[str, Any] = self._words.state["state"]
        return {"key": [int(k) for k in inner["key"]], "position": int(inner["pos"]), "next_normal": self._next_normal}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `get_state` returned."""
        key = np.asarray(state["key"], dtype=np.uint32)
        self._words.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": int(state["position"])}}
        self._next_normal, self._ahead = state["next_normal"], _Ahead()

    def draw(self, distribution: str, shape: Sequence[int], dtype: str, parameters: Mapping[str, float]) -> Array:
        """The numbers of one noise input; see `Noise` for the distributions and their parameters."""
        if distribution == "uniform":
            return self.uniform(shape, dtype)
        if distribution == "normal":
            return self.normal(
                shape, dtype, serial=bool(parameters.get("serial")), blocks=bool(parameters.get("blocks"))
            )
        if distribution == "exponential":
            return self.exponential(shape, dtype)
        if distribution == "randint":
            return self.randint(int(parameters["low"]), int(parameters["high"]), shape)
        if distribution == "permutation":
            return self.permutation(int(parameters["n"]))
        raise ValueError(f"unknown distribution {distribution!r}")

    def uniform(self, shape: Sequence[int], dtype: str = "float32") -> Array:
        """`torch.rand(shape)`: in [0, 1)."""
        count = math.prod(shape)
        flat = self._doubles(count) if dtype == "float64" else self._singles(count)
        return flat.reshape(shape)

    def exponential(self, shape: Sequence[int], dtype: str = "float32") -> Array:
        """`torch.empty(shape).exponential_()`: of rate 1."""
        # The C library's log1p, as in PyTorch; NumPy's own differs in the last bit.
        drawn = [-math.log1p(-u) for u in self._doubles(math.prod(shape)).tolist()]
        return np.array(drawn, dtype=np.float64).astype(dtype).reshape(shape)

    def randint(self, low: int, high: int, shape: Sequence[int]) -> Array:
        """`torch.randint(low, high, shape)`: int64 in [low, high)."""
        count, span = math.prod(shape), high - low
        words = self._long_words(count) if span >= _WIDE_RANGE else self._take(count)
        return ((words % np.uint64(span)).astype(np.int64) + low).reshape(shape)

    def permutation(self, n: int) -> Array:
        """`torch.randperm(n)`: int64."""
        order = np.arange(n, dtype=np.int64)
        for place, word in enumerate(self._take(max(n - 1, 0)).tolist()):
            other = place + word % (n - place)
            order[place], order[other] = order[other], order[place]
        return order

    def normal(
        self, shape: Sequence[int], dtype: str = "float32", *, serial: bool = False, blocks: bool = False
    ) -> Array:
        """`torch.randn(shape)`: mean 0, standard deviation 1. `serial`: one after the other, as for fewer than 16;
        `blocks`: block by block, as PyTorch draws in half precision, before it rounds."""
        count = math.prod(shape)
        wide = "float64" if dtype == "float64" else "float32"
        if count < _BLOCK or serial:
            return np.array(self._serial(count), dtype=np.float64).astype(wide).astype(dtype).reshape(shape)
        if dtype == "float32" and count % _BLOCK == 0:
            return self._blocks(count).reshape(shape)
        draw = self._doubles if dtype == "float64" else self._singles
        whole = count - count % _BLOCK
        # Halves are drawn block by block; the others all at once, and what is no whole block is drawn again.
        blocks |= dtype == "float16"
        flat = np.zeros(count, wide) if blocks else draw(count)
        flat[:whole] = box_muller(draw(whole) if blocks else flat[:whole])
        if whole < count:
            flat[-_BLOCK:] = box_muller(draw(_BLOCK))
        return flat.astype(dtype).reshape(shape)

    def _serial(self, count: int) -> list[float]:
        drawn = [] if self._next_normal is None or not count else [self._next_normal]
        pairs = (count - len(drawn) + 1) // 2
        numbers = iter(self._doubles(2 * pairs).tolist() if pairs else ())
        for turn, spread in zip(numbers, numbers):
            radius, angle = math.sqrt(-2.0 * math.log1p(-spread)), 2.0 * math.pi * turn
            drawn += radius * math.cos(angle), radius * math.sin(angle)
        if count:
            self._next_normal = drawn.pop() if len(drawn) > count else None
        return drawn

    def _blocks(self, count: int) -> Array:
        """Whole blocks in float32. From the second draw of a size on, those of the next few draws are made together:
        NumPy's time for few numbers is that of its calls."""
        ahead = self._ahead
        if ahead.count != count:
            numbers = box_muller(self._singles(count))
            self._ahead = _Ahead(count)
            return numbers
        if ahead.used == len(ahead.numbers):
            start = self._words.state
            draws = max(1, _AHEAD // count)
            words = self._words.random_raw(draws * count)
            self._ahead = ahead = _Ahead(count, box_muller(_to_singles(words)).reshape(draws, count), start)
        ahead.used += 1
        return ahead.numbers[ahead.used - 1].copy()

    def _settle(self) -> None:
        """Put the words back that were taken for draws that did not come."""
        ahead, self._ahead = self._ahead, _Ahead()
        if ahead.used < len(ahead.numbers):
            self._words.state = ahead.start
            self._words.random_raw(ahead.used * ahead.count, output=False)

    def _take(self, count: int) -> Array:
        """Words of 32 bits, each in a uint64."""
        self._settle()
        return self._words.random_raw(count)

    def _long_words(self, count: int) -> Array:
        words = self._take(2 * count)
        return (words[0::2] << np.uint64(32)) | words[1::2]

    def _singles(self, count: int) -> Array:
        return _to_singles(self._take(count))

    def _doubles(self, count: int) -> Array:
        return (self._long_words(count) & np.uint64(2**53 - 1)) * 2.0**-53


def _to_singles(words: Array) -> Array:
    return ((words & np.uint64(2**24 - 1)) * 2.0**-24).astype(np.float32)


@dataclass
class _Ahead:
    """Normal numbers for draws of `count`, a row for each; the first `used` rows are given out.

    `start` is where the words stood before the first of them.
    """

    count: int = 0
    numbers: Sequence[Array] | Array = ()
    start: Any = None
    used: int = 0
