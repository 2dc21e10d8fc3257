"""Fits y = clamp(gain·x + offset, low, high), each a number per column, and says whether it fits exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# Two float32 pipelines that do the same agree to some 1e-6 of the largest value; a wrong hypothesis does not.
_RELATIVE = 2e-5
_ABSOLUTE = 1e-6
# Of the elements, so many must lie strictly between the bounds, or anything would fit a clamp.
_LEAST_FREE = 0.2


@dataclass(frozen=True)
class AffineClip:
    """The fitted numbers, float64, one for each column. `low` and `high` are None where nothing is clipped."""

    gain: torch.Tensor
    offset: torch.Tensor
    low: torch.Tensor | None
    high: torch.Tensor | None

    @property
    def is_identity_without_clip(self) -> bool:
        """Whether gain is 1 and offset 0."""
        return _near(self.gain, 1.0) and _near(self.offset, 0.0)

    @property
    def is_identity(self) -> bool:
        """Whether nothing changes."""
        return self.is_identity_without_clip and self.low is None

    def is_scaling_by(self, factor: float) -> bool:
        """Whether every column is multiplied by `factor`, and nothing else."""
        return _near(self.gain / factor, 1.0) and _near(self.offset, 0.0) and self.low is None

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """The fitted function, in the dtype of `x` (float32 for integers)."""
        import torch

        values = x.double() * self.gain + self.offset
        if self.low is not None and self.high is not None:
            values = torch.minimum(torch.maximum(values, self.low), self.high)
        return values.to(x.dtype if x.is_floating_point() else torch.float32)


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors of the same shape agree to rounding, each column by its own magnitude."""
    if not left.numel():
        return True
    scale = right.abs().reshape(-1, right.shape[-1]).amax(0)
    return bool(((left - right).abs() <= _RELATIVE * scale + _ABSOLUTE).all())


def fit_affine_clip(xs: Sequence[torch.Tensor], ys: Sequence[torch.Tensor]) -> AffineClip | None:
    """The function from `xs` to `ys` where one fits all elements; None otherwise.

    Tensors with three and more dimensions (images) share one gain and offset; others have one per last dimension.
    """
    import torch

    if any(x.shape != y.shape for x, y in zip(xs, ys)) or not xs or not xs[0].numel():
        return None
    width = xs[0].shape[-1] if xs[0].dim() in (1, 2) else 1
    x = torch.cat([t.double().reshape(-1, width) for t in xs])
    y = torch.cat([t.double().reshape(-1, width) for t in ys])
    if not bool(x.isfinite().all() and y.isfinite().all()) or bool((x == x[0]).all()):
        return None
    for free, clipped in ((torch.ones_like(y, dtype=torch.bool), False), (_between(y), True)):
        gain, offset = _least_squares(x, y, free)
        low, high = (y.amin(0), y.amax(0)) if clipped else (None, None)
        line = x * gain + offset
        fitted = torch.minimum(torch.maximum(line, low), high) if low is not None and high is not None else line
        if same(fitted, y) and free.double().mean() >= _LEAST_FREE:
            return AffineClip(gain, offset, *_true_bounds(line, low, high))
    return None


def describe(values: torch.Tensor | None) -> str:
    """One number where all are the same, else a short list."""
    if values is None:
        return "nothing"
    least = 1e-6 * max(1.0, float(values[values.isfinite()].abs().max())) if bool(values.isfinite().any()) else 0.0
    numbers = [f"{v:.4g}" if abs(v) > least else "0" for v in values.flatten().tolist()]
    if len(set(numbers)) == 1:
        return numbers[0]
    return f"[{', '.join(numbers[:6])}{', …' if len(numbers) > 6 else ''}]"


def _between(y: torch.Tensor) -> torch.Tensor:
    """Elements strictly between the smallest and the largest of their column."""
    margin = _RELATIVE * y.abs().amax(0) + _ABSOLUTE
    return (y > y.amin(0) + margin) & (y < y.amax(0) - margin)


def _least_squares(x: torch.Tensor, y: torch.Tensor, free: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Gain and offset of each column over its free elements; gain 1 where x does not vary."""
    import torch

    count = free.sum(0).clamp(min=1)
    mean_x, mean_y = (x * free).sum(0) / count, (y * free).sum(0) / count
    dx, dy = (x - mean_x) * free, (y - mean_y) * free
    spread = dx.square().sum(0)
    gain = torch.where(spread > 0, (dx * dy).sum(0) / spread.clamp(min=1e-300), 1.0)
    return gain, mean_y - gain * mean_x


def _true_bounds(
    line: torch.Tensor, low: torch.Tensor | None, high: torch.Tensor | None
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The bounds, infinite on a side on which a column was never clipped."""
    import torch

    if low is None or high is None:
        return None, None
    margin = _RELATIVE * line.abs().amax(0) + _ABSOLUTE
    cut_low = (line < low - margin).any(0)
    cut_high = (line > high + margin).any(0)
    return torch.where(cut_low, low, -torch.inf), torch.where(cut_high, high, torch.inf)


def _near(values: torch.Tensor, wanted: float) -> bool:
    return bool(((values - wanted).abs() <= 1e-4).all())
