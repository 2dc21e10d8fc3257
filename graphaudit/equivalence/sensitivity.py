"""What eager itself answers when its inputs and parameters move by a few units in the last place.

This is the backward-error argument: an answer that eager gives for inputs that differ from the given ones by less than
they are accurate is as good as eager's own. It decides the elements that miss their bound: a tie between two logits, a
value at a jump, an output that cancels nearly to zero.

Values with at most eight significant bits (0, 1, 0.5, 12, mask constants: whatever bfloat16 holds exactly) are taken
as exact and do not move: a mask has to stay a mask, and rounding 0.5 has one right answer. Parameters move because the
rounding error inside a layer is the exact result for slightly different weights; buffers (statistics, constants) do
not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from graphaudit.equivalence.eager import Eager

NUDGES = 8
_ULPS = 4
_POOL = 1 << 16


@dataclass(frozen=True)
class Moves:
    """How one output of one sample moves. Shapes as the output's own.

    moved    largest change of a float element over all nudges; 0 where it became NaN or infinite
    answers  the integer results, (nudges, …); None for floats
    """

    moved: torch.Tensor
    answers: torch.Tensor | None


class Sensitivity:
    """Nudged runs of the eager module and of its float64 copy, made when asked for and kept."""

    def __init__(self, eager: Eager, double: Eager | None, dtype: torch.dtype) -> None:
        """`dtype` is the policy's own; parameters move by its units, in the float64 copy too."""
        self._runs = [e for e in (eager, double) if e is not None]
        self._eps = torch.finfo(dtype).eps
        self._known: dict[int, list[Moves]] = {}
        generator = torch.Generator().manual_seed(0)
        ulps = torch.randint(1, _ULPS + 1, (_POOL,), generator=generator).double()
        signs = torch.randint(0, 2, (_POOL,), generator=generator).double() * 2 - 1
        self._pool = (ulps * signs).repeat(2)  # twice, so that every start has a full pool behind it
        self._factors: dict[tuple[torch.dtype, float], torch.Tensor] = {}

    def moves(self, number: int, args: Any, kwargs: Any) -> list[Moves]:
        """For each output of sample `number` with those arguments, how it moves."""
        if number not in self._known:
            runs = [moves for run in self._runs if (moves := self._moves_of(run, number, args, kwargs))]
            self._known[number] = [_join(of_output) for of_output in zip(*runs)]
        return self._known[number]

    def _moves_of(self, run: Eager, number: int, args: Any, kwargs: Any) -> list[Moves] | None:
        try:
            base = run(args, kwargs, seed=number)
            nudged = [self._nudged(run, number, args, kwargs, nudge) for nudge in range(NUDGES)]
        except Exception:  # the user's forward; the float64 copy need not run on every input
            return None
        if any([o.shape for o in outputs] != [o.shape for o in base] for outputs in nudged):
            return None
        return [_moves_between(b, [outputs[i] for outputs in nudged]) for i, b in enumerate(base)]

    def _nudged(self, run: Eager, number: int, args: Any, kwargs: Any, nudge: int) -> list[torch.Tensor]:
        def move(leaf: Any) -> Any:
            return self._move_inexact(leaf, nudge) if isinstance(leaf, torch.Tensor) else leaf

        args, kwargs = pytree.tree_map(move, (args, kwargs))
        return run(args, kwargs, seed=number, prepare=lambda module: self._move_parameters(module, nudge))

    def _move_inexact(self, tensor: torch.Tensor, nudge: int) -> torch.Tensor:
        if not tensor.is_floating_point() or not tensor.numel():
            return tensor
        exact = tensor == tensor.to(torch.bfloat16).to(tensor.dtype)
        moved = tensor.clone(memory_format=torch.contiguous_format)
        self._scale(moved, torch.finfo(tensor.dtype).eps, nudge)
        return torch.where(exact | ~tensor.isfinite(), tensor, moved)

    def _move_parameters(self, module: nn.Module, nudge: int) -> None:
        for position, parameter in enumerate(module.parameters()):
            if parameter.is_floating_point() and parameter.numel() and not parameter.is_inference():
                moved = parameter if parameter.is_contiguous() else parameter.contiguous()
                self._scale(moved, self._eps, nudge * 31 + position + 1)
                if moved is not parameter:
                    parameter.copy_(moved)

    def _scale(self, tensor: torch.Tensor, eps: float, number: int) -> None:
        """Multiply a contiguous tensor in place by 1 ± 1…4 eps, fixed by `number`."""
        key = (tensor.dtype, eps)
        if key not in self._factors:
            self._factors[key] = (1 + eps * self._pool).to(tensor.dtype)
        start = (number * 7919) % _POOL
        factors = self._factors[key][start : start + _POOL]
        flat = tensor.view(-1)
        whole = flat.numel() // _POOL * _POOL
        flat[:whole].view(-1, _POOL).mul_(factors)
        flat[whole:].mul_(factors[: flat.numel() - whole])


def _moves_between(base: torch.Tensor, nudged: Sequence[torch.Tensor]) -> Moves:
    if base.is_complex():
        base, nudged = torch.view_as_real(base), [torch.view_as_real(n) for n in nudged]
    if not base.is_floating_point():
        return Moves(torch.zeros(base.shape, dtype=torch.float64), torch.stack([n.long() for n in nudged]))
    moved = torch.zeros(base.shape, dtype=torch.float64)
    for n in nudged:
        change = (n.double() - base.double()).abs()
        moved = torch.maximum(moved, torch.where(change.isfinite(), change, 0.0))
    return Moves(moved, None)


def _join(moves: Sequence[Moves]) -> Moves:
    moved = torch.stack([m.moved for m in moves]).amax(0)
    answers = [m.answers for m in moves if m.answers is not None]
    return Moves(moved, torch.cat(answers) if answers else None)
