"""Two-sample tests between eager and a candidate, for policies whose sequence of draws a graph does not keep."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

DRAWS = 1000  # calls of each side on an input, all from different seeds
INPUTS = 4  # on so many inputs
FALSE_ALARM = 1e-6  # probability that a check of equal distributions fails
_PROJECTIONS = 8  # random linear combinations of all elements, which see how they hang together
_SAME = 1e-5  # values closer than this share of the largest count as one: they differ by rounding


def limit(tests: int, draws: int = DRAWS) -> float:
    """The largest distance of two empirical distributions of `draws` that passes one of so many tests.

    Of equal distributions, the distance exceeds it with probability FALSE_ALARM in any of the tests
    (Kolmogorov–Smirnov, large samples: P(D > d) ≈ 2·exp(−d²·draws); fewer for discrete ones).
    """
    return math.sqrt(math.log(2 * tests / FALSE_ALARM) / draws)


def compare_distributions(eager: Sequence[torch.Tensor], candidate: Sequence[torch.Tensor]) -> str | None:
    """What differs between two series of one output, any shape, as one clause; None where nothing does."""
    wanted, got = (torch.stack([t.double().flatten() for t in side]) for side in (eager, candidate))
    distances = _distances(wanted, got)
    scale = torch.cat([wanted, got]).std(0).clamp(min=1e-300)
    weights = torch.randn(wanted.shape[1], _PROJECTIONS, generator=torch.Generator().manual_seed(0)).double()
    joint = _distances(*((side / scale).nan_to_num(0, 0, 0) @ weights for side in (wanted, got)))
    allowed = limit(distances.numel() + _PROJECTIONS, len(wanted))
    worst = float(torch.cat([distances, joint]).max())
    if worst <= allowed:
        return None
    where = f"element {int(distances.argmax())}" if float(distances.max()) > allowed else "the elements taken together"
    return f"{where} is of another distribution: distance {worst:.3f}, at most {allowed:.3f} is chance"


def _distances(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The largest difference of the two empirical distribution functions in each column; (draws, columns) each."""
    pooled = torch.cat([one, other]).nan_to_num(torch.inf, torch.inf, -torch.inf)
    steps = torch.cat([torch.full_like(one, 1 / len(one)), torch.full_like(other, -1 / len(other))])
    values, order = pooled.sort(0)
    height = steps.gather(0, order).cumsum(0).abs()
    finite = values.where(values.isfinite(), torch.zeros(()).double())
    gap = _SAME * finite.abs().amax(0)
    ends = torch.cat([values[1:] - values[:-1] > gap, torch.ones(1, values.shape[1], dtype=torch.bool)])
    return torch.where(ends, height, 0.0).amax(0)
