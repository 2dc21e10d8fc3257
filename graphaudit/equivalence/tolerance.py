"""How far a float output may be from the reference: a bound per element that follows from dtype and reference.

With e the eager result, d that of the float64 copy, and *typical* the median over all inputs of one output column
(last dimension), times how much larger the given input makes the output (the median over the sample's elements, at
least 1):

    scale = max(|d|, typical |e|)
    noise = max(|e − d|, typical |e − d|)
    bound = 16·eps·scale + 8·noise + 16·eps64·largest |e|      the candidate may be this far from e or from d

e − d is the rounding error that eager itself commits, measured, so a rewrite may be as wrong as eager up to a small
factor and no more; 16·eps covers the outputs on which eager happens to round to the right answer. The last term is the
rounding error of the float64 copy: log(1 + exp(−40)) is 0 in both, and 4e-18 in a softplus that does not lose it. Three
things must not loosen the bound, and do not: an output in larger units in the next column; a mask constant such as −1e9
in the same tensor, because scale is per element and constants from 2^12 up have no part in what is typical; and a jump
(eager rounds to another side of a step than float64), because a difference of more than half of the digits is no
rounding error. Without a float64 reference the bound is 128·eps·scale: the rounding error of a dot product grows as the
square root of its length (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 2.8), and 128 is
that of some sixteen thousand terms.

Inputs drawn ten or a thousand times larger than any that were seen look for overflow, NaN, jumps and wrong branches,
not for rounding: there a saturated gate multiplied by a huge state shows the absolute accuracy of a runtime's sigmoid
(about 1e-7, whatever the result), which says nothing about the policy at work. On them the bound is at least
`FAR`·sqrt(eps) of the largest output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

ROUNDING = 16.0  # eps of the output's dtype
REFERENCE_ERROR = 8.0  # times what eager itself is off
ROUNDING_ALONE = 128.0  # eps, where there is no float64 reference
FAR = 0.125  # of half of the digits, on inputs far outside of what was seen
MASK_CONSTANT = 2.0**12


@dataclass(frozen=True)
class Typical:
    """Usual magnitude and rounding error of each element of an output (float64, shape (rows, columns))."""

    scale: torch.Tensor
    noise: torch.Tensor


def typical(eager: torch.Tensor, double: torch.Tensor | None, dtype: torch.dtype, rows: Sequence[int] = ()) -> Typical:
    """What is typical of one output. `eager` and `double` are (rows, columns) in float64, `dtype` is the output's.

    `rows` says how many rows each sample has.
    """
    magnitude = eager.abs()
    counted = magnitude < MASK_CONSTANT  # NaN and infinity are not
    scale = _usual(torch.where(counted, magnitude, torch.nan), rows)
    if double is None:
        return Typical(scale, torch.zeros_like(scale))
    error = (eager - double).abs()
    noise = _usual(torch.where(counted & error.isfinite(), error, torch.nan), rows)
    return Typical(scale, torch.minimum(noise, scale * half_digits(dtype)))


def half_digits(dtype: torch.dtype) -> float:
    """Relative size of an error that costs half of the dtype's digits."""
    return float(torch.finfo(dtype).eps ** 0.5)


def scales(eager: torch.Tensor, double: torch.Tensor | None, usual: Typical) -> torch.Tensor:
    """max(|d|, typical |e|) for each element, (rows, columns); e stands in where d is not finite."""
    best = eager if double is None else torch.where(double.isfinite(), double, eager)
    return torch.maximum(torch.nan_to_num(best.abs(), nan=0.0, posinf=0.0), usual.scale)


def bounds(eager: torch.Tensor, double: torch.Tensor | None, usual: Typical, dtype: torch.dtype) -> torch.Tensor:
    """The bound for each element, (rows, columns) in float64; `dtype` is the output's own."""
    info = torch.finfo(dtype)
    scale = scales(eager, double, usual)
    least = info.tiny + ROUNDING * torch.finfo(torch.float64).eps * _largest(eager)
    if double is None:
        return ROUNDING_ALONE * info.eps * scale + least
    error = (eager - double).abs()
    rounding = torch.where(error <= half_digits(dtype) * scale, error, 0.0)  # NaN compares false
    return ROUNDING * info.eps * scale + REFERENCE_ERROR * torch.maximum(rounding, usual.noise) + least


def far_bounds(eager: torch.Tensor, rows: Sequence[int], far: Sequence[bool], dtype: torch.dtype) -> torch.Tensor:
    """The least bound of each row, (rows, 1): 0 but for the samples that are `far`."""
    counted = torch.where(eager.abs() < MASK_CONSTANT, eager.abs(), 0.0)
    least = [
        part.max() * (FAR * half_digits(dtype)) if is_far and part.numel() else part.new_zeros(())
        for part, is_far in zip(torch.split(counted, list(rows)), far)
    ]
    return torch.stack(least).repeat_interleave(torch.tensor(rows)).unsqueeze(1)


def _largest(eager: torch.Tensor) -> torch.Tensor:
    counted = torch.where(eager.abs() < MASK_CONSTANT, eager.abs(), 0.0)
    return counted.max() if counted.numel() else counted.new_zeros(())


def _usual(values: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
    """Median of each column, times each sample's median ratio to it where the sample is larger than usual."""
    if not values.numel():
        return torch.zeros_like(values)
    median = torch.nan_to_num(values.nanmedian(0).values, nan=0.0).expand_as(values)
    ratios = torch.where(median > 0, values / median, torch.nan)
    gains = [torch.nan_to_num(part.nanmedian(), nan=1.0) if part.numel() else part.new_ones(())
             for part in torch.split(ratios, list(rows))] if rows else []  # fmt: skip
    if not gains:
        return median
    gain = torch.stack(gains).clamp(min=1.0).repeat_interleave(torch.tensor(rows))
    return median * gain.unsqueeze(1)
