"""Whether a chain of reshapes and transposes leaves the elements of a tensor in their order.

Along such a chain the dimensions of the source fall into factors (120 into 2 · 60, say) that are moved about whole.
Dimensions of size 1 are no factors: they come and go freely.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Size = int | str  # a name where the dimension may vary
Shape = tuple[Size, ...]


@dataclass(frozen=True)
class Reshape:
    """To `shape`, element order kept."""

    shape: Shape


@dataclass(frozen=True)
class Transpose:
    """Dimension i of the result is dimension `order[i]` of the source."""

    order: tuple[int, ...]


def keeps_order(source: Shape, steps: Iterable[Reshape | Transpose]) -> bool | None:
    """Whether the steps leave the elements of a tensor of shape `source` in order; None where that cannot be told.

    It cannot where a size is 0, or a reshape mixes sizes that have no common factors or are not known.
    """
    layout = _Layout(source)
    shape = source
    for step in steps:
        groups = layout.groups(shape)
        if groups is None:
            return None
        if isinstance(step, Reshape):
            shape = step.shape
        else:
            shape = tuple(shape[d] for d in step.order)
            layout.order = [factor for d in step.order for factor in groups[d]]
    return layout.order == layout.source if layout.groups(shape) is not None else None


class _Factor:
    """Part of a dimension; equal only to itself."""

    def __init__(self, size: Size) -> None:
        self.size = size


class _Layout:
    """The factors of the source in its own order, and the same in the order that they have by now."""

    def __init__(self, shape: Shape) -> None:
        self.source = [_Factor(size) for size in shape if size != 1]
        self.order = list(self.source)

    def groups(self, shape: Shape) -> list[list[_Factor]] | None:
        """The factors of each dimension of `shape`, split where needed; None where they do not fit."""
        groups: list[list[_Factor]] = []
        at = 0
        for size in shape:
            end = self._take(at, size)
            if end is None:
                return None
            groups.append(self.order[at:end])
            at = end
        return groups if at == len(self.order) else None

    def _take(self, at: int, size: Size) -> int | None:
        """Where the factors from number `at` on end whose product is `size`; the last one is split if it is larger."""
        while size != 1:
            factor = self.order[at].size if at < len(self.order) else 0
            if factor == size:
                return at + 1 if size else None
            if not isinstance(factor, int) or not isinstance(size, int) or not factor or not size:
                return None
            if size % factor == 0:
                size //= factor
            elif factor % size == 0:
                self._split(self.order[at], size, factor // size)
                return at + 1
            else:
                return None
            at += 1
        return at

    def _split(self, factor: _Factor, first: int, second: int) -> None:
        parts = _Factor(first), _Factor(second)
        for factors in (self.source, self.order):
            place = factors.index(factor)
            factors[place : place + 1] = parts
