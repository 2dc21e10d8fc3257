"""Drawing one input tensor from what was seen of it. Shapes, dtypes and plausible ranges follow the seen values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import torch

# Statistics come from at most this many of the seen tensors; more would only cost time.
_STATISTICS_FROM = 64
# Location and scale are taken per feature (last dimension) once this many rows were seen.
_ROWS_PER_FEATURE = 8


class Mode(Enum):
    """How the values of a drawn sample relate to the seen ones."""

    AROUND = "around"
    NEGATIVE = "negative"
    TENFOLD = "x10"
    PERMUTED = "permuted"
    THOUSANDFOLD = "x1000"
    ZEROS = "zeros"

    @classmethod
    def of(cls, number: int) -> Mode:
        """The mode of the drawn sample of that number: half of them around the seen values, few zeros."""
        if number % 32 == 5:
            return cls.ZEROS
        return (cls.AROUND, cls.NEGATIVE, cls.AROUND, cls.TENFOLD, cls.AROUND, cls.PERMUTED, cls.AROUND,
                cls.THOUSANDFOLD)[number % 8]  # fmt: skip


class Kind(Enum):
    """What the seen values of a tensor are taken for."""

    NUMBER = "number"
    UNIT = "unit"  # numbers in [0, 1], say an image already scaled: drawn inside it
    MASK = "mask"  # floats that are 0 or 1, or booleans
    INTEGER = "integer"  # indices, counts: only what was seen is known to be valid
    OTHER = "other"  # sparse, quantised: the example's own


class Seen:
    """The values seen of one input tensor. `shape` holds names for the dimensions that may vary."""

    def __init__(self, tensors: Sequence[torch.Tensor], shape: Sequence[int | str]) -> None:
        self.shape = tuple(shape)
        self.tensors = [t.detach() for t in tensors[:_STATISTICS_FROM]]
        self.dtype = tensors[0].dtype
        self.kind = self._kind()
        if self.kind is Kind.OTHER:
            return
        self._values = torch.cat([t.flatten() for t in self.tensors])
        self._low, self._high = self._range()
        self._location, self._scale = self._statistics()
        self._settled = self._settled_positions()

    def draw(self, mode: Mode, sizes: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
        """A tensor of the slot's shape, with dynamic dimensions at `sizes`."""
        if self.kind is Kind.OTHER:
            return self.tensors[0].clone()
        shape = [sizes[d] if isinstance(d, str) else d for d in self.shape]
        if mode is Mode.PERMUTED and self._values.numel() and self._settled is None:
            return self._permuted(shape, generator)
        if self.kind is Kind.MASK:
            return self._mask(shape, generator)
        if self.kind is Kind.INTEGER:
            return self._integers(shape, mode, generator)
        if mode is Mode.ZEROS:
            return torch.zeros(shape, dtype=self.dtype)
        if self.kind is Kind.UNIT:
            return torch.rand(shape, generator=generator, dtype=torch.float64).to(self.dtype)
        return self._numbers(shape, mode, generator)

    @property
    def low(self) -> int:
        """The smallest integer seen."""
        return self._low

    @property
    def high(self) -> int:
        """The largest integer seen."""
        return self._high

    @property
    def spread(self) -> float:
        """The usual distance of a number from its mean."""
        return float(self._scale.mean())

    def legal(self, tensor: torch.Tensor, also: Sequence[int] = ()) -> torch.Tensor:
        """The nearest tensor that is like the seen ones in kind: inside their range, `also` excepted, masks masks."""
        if self.kind is Kind.INTEGER:
            inside = tensor.clamp(self._low, self._high)
            kept = torch.isin(tensor.long(), torch.tensor(list(also), dtype=torch.int64))
            return torch.where(kept, tensor, inside)
        if self.kind is Kind.UNIT:
            return tensor.clamp(0, 1)
        if self.kind is Kind.MASK and self._settled is not None:
            settled = self._settled.expand(tensor.shape)
            return torch.where(settled.isnan(), tensor.double(), settled).to(tensor.dtype)
        return tensor

    def _kind(self) -> Kind:
        if self.dtype is torch.bool:
            return Kind.MASK
        if self.tensors[0].layout is not torch.strided or self.tensors[0].is_quantized:
            return Kind.OTHER
        if not (self.dtype.is_floating_point or self.dtype.is_complex):
            return Kind.INTEGER
        values = torch.cat([t.flatten() for t in self.tensors])
        # A lone example of all zeros or all ones is a placeholder and says nothing about its values.
        constant = values.numel() == 0 or bool((values == values[0]).all())
        if self.dtype.is_complex or (constant and len(self.tensors) < 3):
            return Kind.NUMBER
        if bool(((values == 0) | (values == 1)).all()):
            return Kind.NUMBER if constant and bool((values == 0).all()) else Kind.MASK
        return Kind.UNIT if bool(((values >= 0) & (values <= 1)).all()) else Kind.NUMBER

    def _range(self) -> tuple[int, int]:
        if self.kind is not Kind.INTEGER or not self._values.numel():
            return 0, 0
        low, high = int(self._values.min()), int(self._values.max())
        is_image = self.dtype is torch.uint8 and (high > 1 or self._is_picture())
        return (0, 255) if is_image else (low, high)

    def _is_picture(self) -> bool:
        sides = [d for d in self.shape if isinstance(d, int) and d >= 8]
        return len(self.shape) >= 3 and len(sides) >= 2

    def _statistics(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Location and scale, each one number or one per feature, in float64."""
        if self.kind is not Kind.NUMBER or not self._values.numel():
            return torch.tensor(0.0), torch.tensor(1.0)
        real = torch.view_as_real(self._values).flatten() if self.dtype.is_complex else self._values
        values = real.double()
        values = values[values.isfinite()]
        if not values.numel():
            return torch.tensor(0.0), torch.tensor(1.0)
        mean, std = values.mean(), values.std(correction=0)
        overall = std if std > 0 else mean.abs().clamp(min=1.0)
        width = self.shape[-1] if self.shape else None
        if not isinstance(width, int) or self.dtype.is_complex or any(t.shape[-1] != width for t in self.tensors):
            return mean, overall
        rows = self._values.double().reshape(-1, width)
        rows = rows[rows.isfinite().all(1)]
        if rows.shape[0] < _ROWS_PER_FEATURE:
            return mean, overall
        stds = rows.std(0, correction=0)
        return rows.mean(0), torch.where(stds > 0, stds, overall)

    def _settled_positions(self) -> torch.Tensor | None:
        """For masks: 1 where every seen tensor is 1, 0 where every one is 0, NaN where they vary.

        A mask whose first column is always true (some action is always legal) is never drawn with it false. Dynamic
        dimensions are reduced. None where fewer than four tensors were seen or their shapes do not match.
        """
        if self.kind is not Kind.MASK or len(self.tensors) < 4:
            return None
        dynamic = [i for i, d in enumerate(self.shape) if isinstance(d, str)]
        static = [d for d in self.shape if isinstance(d, int)]
        rows: list[torch.Tensor] = []
        for tensor in self.tensors:
            moved = tensor.double().movedim(dynamic, list(range(len(dynamic)))) if dynamic else tensor.double()
            if list(moved.shape[len(dynamic) :]) != static:
                return None
            rows.append(moved.reshape(-1, *static))
        stacked = torch.cat(rows)
        mean = stacked.mean(0)
        settled = torch.where((mean == 0) | (mean == 1), mean, torch.nan)
        for position in dynamic:
            settled = settled.unsqueeze(position)
        return settled

    def _mask(self, shape: list[int], generator: torch.Generator) -> torch.Tensor:
        share = (0.5, 0.9, 0.1)[int(torch.randint(3, (), generator=generator))]
        drawn = (torch.rand(shape, generator=generator) < share).double()
        if self._settled is not None:
            drawn = torch.where(self._settled.isnan(), drawn, self._settled)
        return drawn.to(self.dtype)

    def _integers(self, shape: list[int], mode: Mode, generator: torch.Generator) -> torch.Tensor:
        if mode is Mode.ZEROS:
            return torch.full(shape, min(max(0, self._low), self._high), dtype=self.dtype)
        if self._high >= torch.iinfo(torch.int64).max:
            return self._permuted(shape, generator)
        return torch.randint(self._low, self._high + 1, shape, generator=generator).to(self.dtype)

    def _numbers(self, shape: list[int], mode: Mode, generator: torch.Generator) -> torch.Tensor:
        full = [*shape, 2] if self.dtype.is_complex else shape
        values = torch.randn(full, generator=generator, dtype=torch.float64) * self._scale + self._location
        if mode is Mode.NEGATIVE:
            values = -values.abs()
        elif mode is Mode.TENFOLD:
            values = values * 10
        elif mode is Mode.THOUSANDFOLD:
            values = values * 1000
        limit = torch.finfo(self.dtype).max
        values = values.clamp(-limit, limit)
        return (torch.view_as_complex(values) if self.dtype.is_complex else values).to(self.dtype)

    def _permuted(self, shape: list[int], generator: torch.Generator) -> torch.Tensor:
        """Seen values in another order; drawn again where the shape asks for more."""
        total = int(torch.Size(shape).numel())
        if not self._values.numel():
            return torch.zeros(shape, dtype=self.dtype)
        order = torch.randperm(self._values.numel(), generator=generator)
        if total > order.numel():
            order = torch.randint(self._values.numel(), (total,), generator=generator)
        return self._values[order[:total]].reshape(shape).clone()
