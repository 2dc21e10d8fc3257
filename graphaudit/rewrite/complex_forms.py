"""What operators compute of complex numbers, written with the real and the imaginary part as tensors of their own.

A form takes the arguments of a call, with a `Pair` for every complex tensor, and returns a `Pair`, a list of such, or
a real tensor. Two tensors rather than one with a last dimension of 2: what moves elements then keeps its arguments,
products read no strided halves, and a part that nobody reads is not computed.

Formulas: M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 1964, sections 3.7, 4.2 and 4.3.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import _pytree as pytree

_LONGEST_TRANSFORM = 512  # its matrix has n² numbers


class Pair(NamedTuple):
    """A complex tensor as real tensors of its shape; in an argument also a complex number as two numbers."""

    re: Any
    im: Any


class NoForm(Exception):
    """The call has no real form; the message says why."""


def form_of(operator: Any) -> Callable[..., Any] | None:
    """The form of an ATen operator; None where it has none."""
    name = operator._schema.name.removeprefix("aten::")
    if name in _WRITTEN:
        return _WRITTEN[name]
    if name in _OF_EACH_PART:
        return lambda *args, **kwargs: _each_part(operator, _OF_EACH_PART[name], args, kwargs)
    if name in _PRODUCTS:
        return lambda *args, **kwargs: _product(operator, args, kwargs)
    return None


# Linear operators: both parts go the same way. The parameters that hold values; a real one has an imaginary part of 0.
_OF_EACH_PART: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            *("alias", "clone", "contiguous", "detach", "lift_fresh_copy", "new_zeros", "positive", "zeros_like"),
            *("broadcast_to", "expand", "repeat", "repeat_interleave", "tile"),
            *("chunk", "narrow", "select", "slice", "split", "split_with_sizes", "unbind", "unfold"),
            *("diag", "diag_embed", "diagonal", "trace", "tril", "triu"),
            *("flip", "mT", "movedim", "permute", "roll", "swapaxes", "t", "transpose"),
            *("flatten", "reshape", "squeeze", "unflatten", "_unsafe_view", "unsqueeze", "view"),
            *("gather", "index", "index_select", "take_along_dim"),
            *("cumsum", "mean", "neg", "sum"),
        ),
        ("self",),
    ),
    **dict.fromkeys(("add", "rsub", "sub", "where"), ("self", "other")),
    **dict.fromkeys(("cat", "concat", "hstack", "stack", "vstack"), ("tensors",)),
    **dict.fromkeys(("copy", "select_scatter", "slice_scatter"), ("self", "src")),
    **dict.fromkeys(("constant_pad_nd", "masked_fill", "pad"), ("self", "value")),
    **dict.fromkeys(("index_add", "index_copy"), ("self", "source")),
    **dict.fromkeys(("full_like", "new_full"), ("self", "fill_value")),
    "expand_as": ("self", "other"),
    "index_put": ("self", "values"),
    "scatter": ("self", "src", "value"),
}
# Linear in each of their tensors.
_PRODUCTS = frozenset(("bmm", "dot", "einsum", "matmul", "mm", "mul", "mv", "outer"))


def _each_part(operator: Any, holders: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    names = [a.name for a in operator._schema.arguments]

    def pick(part: int, name: str, argument: Any) -> Any:
        if isinstance(argument, torch.dtype):
            return argument.to_real()
        if name not in holders or argument is None or isinstance(argument, str):
            return argument
        return pytree.tree_map(lambda leaf: lift(leaf)[part], argument, is_leaf=_is_pair)

    def of(part: int) -> Any:
        given = (pick(part, name, a) for name, a in zip(names, args))
        return operator(*given, **{name: pick(part, name, a) for name, a in kwargs.items()})

    re, im = of(0), of(1)
    return Pair(re, im) if isinstance(re, Tensor) else [Pair(*parts) for parts in zip(re, im, strict=True)]


def _product(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Pair:
    """The sum over all choices of a part of each factor; each imaginary part turns the term by i."""
    leaves, spec = pytree.tree_flatten(args, is_leaf=_is_pair)
    pairs = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Pair | complex)]
    sums: list[Any] = [None, None]
    for choice in itertools.product((0, 1), repeat=len(pairs)):
        chosen = list(leaves)
        for i, part in zip(pairs, choice):
            chosen[i] = lift(leaves[i])[part]
        if any(isinstance(chosen[i], float) and chosen[i] == 0 for i in pairs):
            continue
        term = operator(*pytree.tree_unflatten(chosen, spec), **kwargs)
        so_far, negative = sums[sum(choice) % 2], sum(choice) % 4 > 1
        if so_far is None:
            sums[sum(choice) % 2] = -term if negative else term
        else:
            sums[sum(choice) % 2] = so_far - term if negative else so_far + term
    re, im = sums
    return Pair(torch.zeros_like(im) if re is None else re, torch.zeros_like(re) if im is None else im)


def lift(value: Any) -> Pair:
    """A pair, a real tensor or a number as a pair."""
    if isinstance(value, Pair):
        return value
    if isinstance(value, Tensor):
        return Pair(value, torch.zeros_like(value))
    return Pair(value.real, value.imag)


def _is_pair(value: Any) -> bool:
    return isinstance(value, Pair)


def _complex(re: Tensor, im: Tensor) -> Pair:
    if re.shape == im.shape:
        return Pair(re, im)
    return Pair(*torch.broadcast_tensors(re, im))  # type: ignore[no-untyped-call]


def _mul(a: Any, b: Any) -> Pair:
    return _product(torch.mul, (a, b), {})


def _linear(x: Any, weight: Any, bias: Any = None) -> Pair:
    product = _product(torch.nn.functional.linear, (x, weight), {})
    if bias is None:
        return product
    return Pair(product.re + lift(bias).re, product.im + lift(bias).im)


def _addmm(bias: Any, left: Any, right: Any, *, beta: float = 1, alpha: float = 1) -> Pair:
    product, added = _product(torch.mm, (left, right), {}), lift(bias)
    return Pair(*(beta * a + alpha * p for a, p in zip(added, product)))


def _square_abs(z: Pair) -> Tensor:
    squared: Tensor = z.re * z.re + z.im * z.im
    return squared


def _abs(z: Pair) -> Tensor:
    return _square_abs(z).sqrt()


def _angle(z: Pair) -> Tensor:
    return torch.atan2(z.im, z.re)


def _polar(length: Any, angle: Any) -> Pair:
    return Pair(length * torch.cos(angle), length * torch.sin(angle))


def _conj(z: Pair) -> Pair:
    return Pair(z.re, -z.im)


def _reciprocal(z: Pair) -> Pair:
    squared = _square_abs(z)
    return Pair(z.re / squared, -z.im / squared)


def _div(a: Any, b: Any) -> Pair:
    if isinstance(b, complex):
        return _mul(a, 1 / b)
    if not isinstance(b, Pair):
        return Pair(a.re / b, a.im / b)
    product, squared = _mul(a, _conj(b)), _square_abs(b)
    return Pair(product.re / squared, product.im / squared)


def _exp(z: Pair) -> Pair:
    return _polar(z.re.exp(), z.im)


def _expm1(z: Pair) -> Pair:
    """exp(x) cos(y) - 1 = expm1(x) cos(y) - 2 sin²(y / 2), which keeps its digits near 0."""
    half = torch.sin(z.im / 2)
    return Pair(torch.expm1(z.re) * torch.cos(z.im) - 2 * half * half, z.re.exp() * torch.sin(z.im))


def _log(z: Pair) -> Pair:
    return Pair(_square_abs(z).log() / 2, _angle(z))


def _sqrt(z: Pair) -> Pair:
    return _polar(_abs(z).sqrt(), _angle(z) / 2)


def _pow(base: Any, exponent: Any) -> Pair:
    if isinstance(exponent, int | float) and exponent in range(1, 17):
        result, square = None, base
        for bit in reversed(f"{int(exponent):b}"):
            if bit == "1":
                result = square if result is None else _mul(result, square)
            square = _mul(square, square)
        return result  # type: ignore[return-value]
    if isinstance(base, Pair):
        return _exp(_mul(_log(base), exponent))
    if isinstance(base, Tensor):
        raise NoForm("the base is a real tensor, and the exponent complex")
    number = complex(base)
    length, angle = (math.log(abs(number)), math.atan2(number.imag, number.real)) if number else (-math.inf, 0.0)
    return _exp(_mul(exponent, complex(length, angle)))


def _cumprod(z: Pair, dim: int, *, dtype: torch.dtype | None = None) -> Pair:  # noqa: ARG001
    """By doubling: after each step, every element is the product of twice as many."""
    size, step = z.re.shape[dim], 1
    if not isinstance(size, int):
        raise NoForm("the dimension that it multiplies along varies in size")
    while step < size:
        product = _mul(_narrowed(z, dim, step, size - step), _narrowed(z, dim, 0, size - step))
        z = Pair(*(torch.cat([a.narrow(dim, 0, step), b], dim) for a, b in zip(z, product)))
        step *= 2
    return z


def _narrowed(z: Pair, dim: int, start: int, length: int) -> Pair:
    return Pair(z.re.narrow(dim, start, length), z.im.narrow(dim, start, length))


def _to_copy(x: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    if dtype is not None and not dtype.is_complex:
        return lift(x).re.to(dtype)
    real = dtype.to_real() if dtype is not None else None
    return Pair(*(part.to(real) if real is not None else part for part in lift(x)))


def _view_as_complex(x: Tensor) -> Pair:
    return Pair(x[..., 0], x[..., 1])


def _view_as_real(z: Pair) -> Tensor:
    return torch.stack([z.re, z.im], -1)


def _rfft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Pair:
    x, size = _resized(x, n, dim)
    return _transformed(Pair(x, None), _turns(size, size // 2 + 1), -1, dim, _scale(size, norm, forward=True))


def _fft(z: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Pair:
    parts = [_resized(part, n, dim) for part in lift(z)]
    size = parts[0][1]
    return _transformed(Pair(parts[0][0], parts[1][0]), _turns(size, size), -1, dim, _scale(size, norm, forward=True))


def _ifft(z: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Pair:
    parts = [_resized(part, n, dim) for part in lift(z)]
    size = parts[0][1]
    return _transformed(Pair(parts[0][0], parts[1][0]), _turns(size, size), 1, dim, _scale(size, norm, forward=False))


def _irfft(z: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Frequencies other than 0 and n / 2 count twice, for the half that is left out; those two are taken to be real."""
    z = lift(z)
    length = n if n is not None else 2 * (z.re.shape[dim] - 1)
    _check(length)
    half = length // 2 + 1
    turns = _turns(length, half).T
    weight = np.full((half, 1), 2 * _scale(length, norm, forward=False))
    whole = [0, half - 1] if length % 2 == 0 else [0]
    weight[whole] /= 2
    parts = [_resized(part, half, dim)[0] for part in z]
    return _along(parts[0], np.cos(turns) * weight, dim) - _along(parts[1], _sin(turns) * weight, dim)


def _transformed(z: Pair, turns: NDArray[np.float64], sign: int, dim: int, scale: float) -> Pair:
    """The sums over z exp(±i turns), for the columns of `turns`."""
    cosines, sines = np.cos(turns) * scale, _sin(turns) * (sign * scale)
    re, im = _along(z.re, cosines, dim), _along(z.re, sines, dim)
    if z.im is None:
        return Pair(re, im)
    return Pair(re - _along(z.im, sines, dim), im + _along(z.im, cosines, dim))


def _along(x: Tensor, matrix: NDArray[np.float64], dim: int) -> Tensor:
    constant = torch.from_numpy(matrix.astype(str(x.dtype).removeprefix("torch.")))
    result: Tensor = (x.transpose(dim, -1) @ constant).transpose(dim, -1)
    return result


def _turns(size: int, frequencies: int) -> NDArray[np.float64]:
    """Angles of shape (size, frequencies), reduced to one turn before they are rounded."""
    whole = np.outer(np.arange(size), np.arange(frequencies)) % size
    return whole.astype(np.float64) * (2 * math.pi / size)


def _sin(turns: NDArray[np.float64]) -> NDArray[np.float64]:
    """0 at half a turn too: the middle frequency of a real signal is real, and its angle is 0 or pi."""
    return np.where(turns == math.pi, 0.0, np.sin(turns))


def _scale(size: int, norm: str | None, *, forward: bool) -> float:
    if norm == "ortho":
        return 1 / math.sqrt(size)
    return 1 / size if (norm == "forward") is forward else 1.0


def _resized(x: Tensor, n: int | None, dim: int) -> tuple[Tensor, int]:
    """`x` cut or padded with zeros to `n` elements."""
    size = x.shape[dim]
    _check(size if n is None else n)
    if n is None or n == size:
        return x, size
    if isinstance(size, int) and n < size:
        return x.narrow(dim, 0, n), n
    shape = [*x.shape]
    shape[dim] = n - size
    return torch.cat([x, x.new_zeros(shape)], dim), n


def _check(size: Any) -> None:
    if not isinstance(size, int):
        raise NoForm("the length of the transform varies")
    if size > _LONGEST_TRANSFORM:
        raise NoForm(f"the transform is of {size} elements; written out are those up to {_LONGEST_TRANSFORM}")


_WRITTEN: dict[str, Callable[..., Any]] = {
    "abs": _abs,
    "addmm": _addmm,
    "angle": _angle,
    "complex": _complex,
    "conj": _conj,
    "_conj": _conj,
    "conj_physical": _conj,
    "_conj_physical": _conj,
    "cumprod": _cumprod,
    "div": _div,
    "eq": lambda a, b: (lift(a).re == lift(b).re) & (lift(a).im == lift(b).im),
    "exp": _exp,
    "expm1": _expm1,
    "fft_fft": _fft,
    "fft_ifft": _ifft,
    "fft_irfft": _irfft,
    "fft_rfft": _rfft,
    "imag": lambda z: z.im,
    "isfinite": lambda z: z.re.isfinite() & z.im.isfinite(),
    "isnan": lambda z: z.re.isnan() | z.im.isnan(),
    "linear": _linear,
    "log": _log,
    "ne": lambda a, b: (lift(a).re != lift(b).re) | (lift(a).im != lift(b).im),
    "ones_like": lambda z, **_: Pair(torch.ones_like(lift(z).re), torch.zeros_like(lift(z).re)),
    "polar": _polar,
    "pow": _pow,
    "real": lambda z: z.re,
    "reciprocal": _reciprocal,
    "resolve_conj": lambda z: z,
    "resolve_neg": lambda z: z,
    "sqrt": _sqrt,
    "square": lambda z: _mul(z, z),
    "_to_copy": _to_copy,
    "view_as_complex": _view_as_complex,
    "view_as_real": _view_as_real,
}
