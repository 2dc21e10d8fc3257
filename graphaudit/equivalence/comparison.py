"""Candidate against reference, one output over many samples at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from graphaudit.equivalence.tolerance import Typical, bounds, far_bounds, scales, typical


@dataclass(frozen=True)
class Expected:
    """One output over a block of samples: all rows of all samples below each other.

    eager   (rows, columns), float64 for floats, int64 for integers and booleans
    double  the float64 copy's answer, NaN where it has none; None where it is no better than eager
    rows    how many rows each sample has
    far     which samples lie far outside of what was seen
    """

    slot: int
    dtype: torch.dtype
    eager: torch.Tensor
    double: torch.Tensor | None
    rows: tuple[int, ...]
    far: tuple[bool, ...]

    @property
    def is_float(self) -> bool:
        """Whether the values are compared within a bound, not exactly."""
        return self.eager.dtype is torch.float64

    @cached_property
    def usual(self) -> Typical:
        """The usual magnitude and rounding error of each element."""
        return typical(self.eager, self.double, real_dtype(self.dtype), self.rows)

    @cached_property
    def bound(self) -> torch.Tensor:
        """How far the candidate may be off, for each element."""
        return bounds(self.eager, self.double, self.usual, real_dtype(self.dtype))

    @cached_property
    def widest(self) -> torch.Tensor:
        """`bound`, or what is allowed far outside of what was seen where that is more."""
        if not any(self.far):
            return self.bound
        return torch.maximum(self.bound, far_bounds(self.eager, self.rows, self.far, real_dtype(self.dtype)))

    @cached_property
    def scale(self) -> torch.Tensor:
        """The magnitude that relative errors refer to, for each element."""
        return scales(self.eager, self.double, self.usual)

    def bound_of(self, sample: int, output: torch.Tensor) -> torch.Tensor:
        """`bound` for one sample of the block, in the shape of its output; zero where values are compared exactly."""
        shape = torch.view_as_real(output).shape if output.is_complex() else output.shape
        if not self.is_float:
            return torch.zeros(shape, dtype=torch.float64)
        return self.bound[self.rows_of(sample)].reshape(shape)

    def sample_of_row(self, row: int) -> int:
        """The number, within the block, of the sample that a row belongs to."""
        for number, count in enumerate(self.rows):
            if row < count:
                return number
            row -= count
        raise IndexError(row)

    def rows_of(self, sample: int) -> slice:
        """The rows of a sample."""
        start = sum(self.rows[:sample])
        return slice(start, start + self.rows[sample])


@dataclass(frozen=True)
class Difference:
    """How a candidate's output differs; every field has the shape of `Expected.eager`.

    delta     |c − e| where both are finite, else 0
    mismatch  distance to the nearer of e and d; NaN where the candidate is not finite and eager is
    bad       neither within the bound nor otherwise in order
    odd       eager is NaN or infinite and the candidate is not the same
    repaired  odd, and the candidate agrees with the float64 copy
    """

    candidate: torch.Tensor
    delta: torch.Tensor
    mismatch: torch.Tensor
    bad: torch.Tensor
    odd: torch.Tensor
    repaired: torch.Tensor

    def without(self, left_out: torch.Tensor) -> Difference:
        """The same with the given elements (booleans) left out of what counts against the candidate."""
        return replace(self, delta=self.delta.masked_fill(left_out, 0.0), bad=self.bad & ~left_out)


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype itself, or that of the parts of a complex number."""
    return dtype.to_real() if dtype.is_complex else dtype


def columns(shapes: Sequence[torch.Size]) -> int:
    """The last dimension where all tensors have the same one and more than that; else 1."""
    widths = {s[-1] if len(s) > 1 else 1 for s in shapes}
    return max(widths.pop(), 1) if len(widths) == 1 else 1


def matrix(tensors: Sequence[torch.Tensor], width: int) -> torch.Tensor:
    """The tensors below each other as (rows, width): float64 for floats, int64 for integers and booleans."""
    flat = torch.cat([torch.view_as_real(t).flatten() if t.is_complex() else t.flatten() for t in tensors])
    return (flat.double() if flat.is_floating_point() else flat.long()).reshape(-1, width)


def compare(expected: Expected, candidate: torch.Tensor) -> Difference:
    """Compare a candidate's values (as `matrix` makes them) with the reference."""
    return _compare_floats(expected, candidate) if expected.is_float else _compare_exactly(expected, candidate)


def _compare_floats(expected: Expected, candidate: torch.Tensor) -> Difference:
    e, d, bound = expected.eager, expected.double, expected.widest
    finite, candidate_finite = e.isfinite(), candidate.isfinite()
    both = finite & candidate_finite
    # `<=` is false for NaN, so an element passes only by a comparison that came out true.
    to_eager = (candidate - e).abs()
    near = both & (to_eager <= bound)
    same = (candidate == e) | (candidate.isnan() & e.isnan())
    odd = ~finite & ~same
    mismatch = torch.where(both, to_eager, torch.nan)
    if d is None:
        repaired, harmless = torch.zeros_like(odd), odd
    else:
        to_double = torch.where(d.isfinite() & candidate_finite, (candidate - d).abs(), torch.nan)
        mismatch = torch.fmin(mismatch, torch.where(both | odd, to_double, torch.nan))
        near |= both & (to_double <= bound)
        repaired = odd & (to_double <= bound)
        # Nothing is known that the candidate would have to be, or it says "not finite" in another way.
        harmless = odd & (~d.isfinite() | ~candidate_finite)
    bad = ~(near | same | repaired | harmless)
    return Difference(candidate, torch.where(both, to_eager, 0.0), mismatch, bad, odd, repaired)


def _compare_exactly(expected: Expected, candidate: torch.Tensor) -> Difference:
    bad = candidate != expected.eager
    delta = (candidate - expected.eager).abs().double()
    none = torch.zeros_like(bad)
    return Difference(candidate, delta, delta, bad, none, none)


def same_class(left: torch.dtype, right: torch.dtype) -> bool:
    """Floats have to match in width, booleans to stay booleans; integers may be of another width."""
    if left == right:
        return True
    return not any(d.is_floating_point or d.is_complex or d is torch.bool for d in (left, right))


def is_better(dtype: torch.dtype, own: torch.dtype, inside: torch.dtype) -> bool:
    """Whether an answer of the float64 copy is more accurate than one of `own` dtype, of a policy that computes in
    `inside`: what is float64 may have been computed in less."""
    if own.is_floating_point:
        return dtype is torch.float64 and not (own is torch.float64 and inside is torch.float64)
    if own.is_complex:
        return dtype is torch.complex128 and own is not torch.complex128
    return same_class(dtype, own)
