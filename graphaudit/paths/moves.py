"""Inputs near a given one: single elements and whole tensors moved, to values that the policy's code compares with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from graphaudit.equivalence.draws import Kind, Seen

_ELEMENTS = 8  # of one tensor that are moved on their own
_VALUES = 12  # that integers are tried at


class Space:
    """What inputs may be, from what was seen of each tensor. `named` are numbers in the policy's own comparisons."""

    def __init__(self, seen: Sequence[Seen]) -> None:
        self.seen = seen
        self.named: set[float] = set()

    def floats(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """All real numbers of an input that may take any value, in one row of float64."""
        parts = [t.double().flatten() for t, s in zip(tensors, self.seen) if _is_real(s)]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)

    def selected(self, gradient: torch.Tensor, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """The part of a gradient by all floating-point inputs that belongs to `floats`."""
        floating = [(t, s) for t, s in zip(tensors, self.seen) if t.is_floating_point()]
        parts = torch.split(gradient, [t.numel() for t, _ in floating])
        return torch.cat([p for p, (_, s) in zip(parts, floating) if _is_real(s)] or [gradient[:0]])

    def with_floats(self, tensors: Sequence[torch.Tensor], floats: torch.Tensor) -> list[torch.Tensor]:
        """The input with its real numbers replaced."""
        made, at = [], 0
        for tensor, seen in zip(tensors, self.seen):
            if _is_real(seen):
                limit = torch.finfo(tensor.dtype).max
                part = floats[at : at + tensor.numel()].reshape(tensor.shape).clamp(-limit, limit).to(tensor.dtype)
                at += tensor.numel()
                made.append(seen.legal(part))
            else:
                made.append(tensor)
        return made

    def moves(self, tensors: Sequence[torch.Tensor], generator: torch.Generator) -> Iterator[list[torch.Tensor]]:
        """Inputs that differ from `tensors` in one tensor: the coarse moves of each first, the odd values last."""
        ways = [list(self._moves_of(t, s, generator)) for t, s in zip(tensors, self.seen)]
        for number in range(max(map(len, ways), default=0)):
            for slot, way in enumerate(ways):
                if number < len(way):
                    yield [*tensors[:slot], way[number], *tensors[slot + 1 :]]

    def variant(
        self, tensors: Sequence[torch.Tensor], others: Sequence[torch.Tensor], number: int
    ) -> list[torch.Tensor]:
        """`tensors` with one of them from another input, or (where that has another shape, and every other time) with
        its numbers moved a little towards it."""
        slot = number // 2 % max(len(tensors), 1)
        mine, its = tensors[slot], others[slot]
        if mine.shape == its.shape and number % 2 == 0:
            made = its
        elif mine.shape == its.shape and _is_real(self.seen[slot]):
            made = self.seen[slot].legal(torch.lerp(mine, its, 2.0 ** -(number % 8)))
        else:
            made = mine
        return [*tensors[:slot], made, *tensors[slot + 1 :]]

    def _moves_of(self, tensor: torch.Tensor, seen: Seen, generator: torch.Generator) -> Iterator[torch.Tensor]:
        if not tensor.numel() or seen.kind is Kind.OTHER or tensor.is_complex():
            return
        chosen = torch.randperm(tensor.numel(), generator=generator)[:_ELEMENTS].tolist()
        if seen.kind is Kind.MASK:
            yield from self._legal(seen, _filled(tensor, (0, 1), chosen))
        elif seen.kind is Kind.INTEGER:
            yield from self._legal(seen, _filled(tensor, self._integers(seen, tensor.dtype), chosen))
        else:
            yield from self._legal(seen, self._reals(tensor, seen, chosen))

    def _legal(self, seen: Seen, tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
        for tensor in tensors:
            yield seen.legal(tensor, [int(v) for v in self._whole()])

    def _whole(self) -> list[float]:
        return sorted(v for v in self.named if v == int(v) and abs(v) < 2**31) if self.named else []

    def _integers(self, seen: Seen, dtype: torch.dtype) -> list[int]:
        named = [int(v) for v in self._whole()]
        step = max(1, (seen.high - seen.low) // _VALUES)
        values = [*named, seen.low, seen.high, *range(seen.low, seen.high + 1, step)]
        info = torch.iinfo(dtype)
        return [v for v in dict.fromkeys(values) if info.min <= v <= info.max][: 2 * _VALUES]

    def _reals(self, tensor: torch.Tensor, seen: Seen, chosen: Sequence[int]) -> Iterator[torch.Tensor]:
        spread = seen.spread
        yield from (tensor * factor for factor in (0.0, -1.0, 0.1, 10.0))
        yield from (tensor + offset for offset in (spread, -spread))
        for value in sorted(v for v in self.named if abs(v) < 1e30)[:_VALUES]:
            yield from (torch.full_like(tensor, value + offset) for offset in (0.0, spread / 16, -spread / 16))
        for at in chosen:
            old = float(tensor.flatten()[at])
            yield from (_with(tensor, at, value) for value in (-old, old + 4 * spread, old - 4 * spread))
        yield from (_with(tensor, chosen[0], value) for value in (float("nan"), float("inf"), -float("inf")))


def _filled(tensor: torch.Tensor, values: Sequence[int], chosen: Sequence[int]) -> Iterator[torch.Tensor]:
    yield from (torch.full_like(tensor, value) for value in values)
    if tensor.numel() > 1:
        yield from (_with(tensor, at, value) for value in values for at in chosen)


def _with(tensor: torch.Tensor, at: int, value: float) -> torch.Tensor:
    made = tensor.contiguous().clone()
    made.view(-1)[at] = value
    return made


def _is_real(seen: Seen) -> bool:
    return seen.kind in (Kind.NUMBER, Kind.UNIT) and not seen.dtype.is_complex
