"""Normal numbers from uniform ones in blocks of 16, with the float32 arithmetic of PyTorch's AVX2 kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_HALF_BLOCK = 8
_F = np.float32
# Cephes' polynomials for float32, as in aten/src/ATen/native/cpu/avx_mathfun.h.
_LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip
_COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_QUARTER_PI = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)  # −π/4 in three parts


def box_muller(uniform: Array) -> Array:
    """Standard normal numbers, float32 or float64 as `uniform`, whose length is a multiple of 16."""
    blocks = uniform.reshape(-1, 2 * _HALF_BLOCK)
    spread, turn = 1 - blocks[:, :_HALF_BLOCK], blocks[:, _HALF_BLOCK:]
    if uniform.dtype == np.float32:
        radius = np.sqrt(_F(-2) * _log(spread))
        sine, cosine = _sine_and_cosine(_F(2 * np.pi) * turn)
    else:
        radius = np.sqrt(-2.0 * _each(math.log, spread))
        sine, cosine = (_each(f, 2 * np.pi * turn) for f in (math.sin, math.cos))
    return np.concatenate([radius * cosine, radius * sine], axis=1).reshape(uniform.shape)


def _each(function: Callable[[float], float], x: Array) -> Array:
    """The C library's function, which PyTorch calls; NumPy's own differs in the last bit."""
    return np.array([function(v) for v in x.ravel().tolist()], dtype=np.float64).reshape(x.shape)


def _log(x: Array) -> Array:
    bits = x.view(np.uint32)
    exponent = ((bits >> 23).astype(np.int32) - 126).astype(_F)
    mantissa = ((bits & 0x807FFFFF) | 0x3F000000).view(_F)  # in [0.5, 1)
    low = mantissa < _F(0.707106781186547524)
    mantissa = mantissa - _F(1) + np.where(low, mantissa, _F(0))
    exponent = exponent - low.astype(_F)
    square = mantissa * mantissa
    tail = _fused(_polynomial(_LOG, mantissa) * mantissa, square, exponent * _F(-2.12194440e-4))
    tail = _fused(square, _F(-0.5), tail)
    return _fused(exponent, _F(0.693359375), mantissa + tail)


def _sine_and_cosine(x: Array) -> tuple[Array, Array]:
    """Of x in [0, 2π]."""
    octant = ((x * _F(4 / np.pi)).astype(np.int32) + 1) & ~1
    for part in _QUARTER_PI:
        x = _fused(octant.astype(_F), _F(part), x)
    square = x * x
    even = _polynomial(_COSINE, square) * square
    # cos x = 1 − x²/2 + …; the product is not rounded before the difference
    even = (even.astype(np.float64) * square - square * _F(0.5)).astype(_F) + _F(1)
    odd = _fused(_polynomial(_SINE, square) * square, x, x)
    swapped = (octant & 2) != 0
    sine, cosine = np.where(swapped, even, odd), np.where(swapped, odd, even)
    return np.where(octant & 4, -sine, sine), np.where((octant - 2) & 4, cosine, -cosine)


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """Horner's scheme."""
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = _fused(value, x, _F(coefficient))
    return value


def _fused(x: Array, y: Array | np.float32, z: Array | np.float32) -> Array:
    """x·y + z, rounded once: products of float32 are exact in float64."""
    fused: Array = (x.astype(np.float64) * y + z).astype(_F)
    return fused
