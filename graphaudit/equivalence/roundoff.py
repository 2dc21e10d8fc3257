"""How many digits of the float64 copy's answer are right: it is run again with every operation rounded another way.

Where eager is not finite, the float64 copy alone says what the answer is, and it loses digits too: it computes
log(1 - tanh(x)**2) with an error of 0.1 at x = 18. Multiplying every result by 1 + eps or 1 - eps shows by how much the
answer depends on rounding.

Source: D. S. Parker, Monte Carlo Arithmetic, UCLA CSD-970002, 1997.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from graphaudit.equivalence.eager import Eager

RUNS = 8


class Roundoff:
    """Runs of the float64 copy that round at random, made when asked for and kept."""

    def __init__(self, double: Eager) -> None:
        self._double = double
        self._known: dict[int, list[torch.Tensor] | None] = {}

    def of(self, number: int, args: Any, kwargs: Any, slot: int) -> torch.Tensor | None:
        """How far each element of output `slot` of sample `number` moves; infinitely where it stops being finite.

        float64, shaped as the output; None where a run raises or gives other shapes.
        """
        if number not in self._known:
            self._known[number] = self._measure(number, args, kwargs)
        moved = self._known[number]
        return moved[slot] if moved is not None else None

    def _measure(self, number: int, args: Any, kwargs: Any) -> list[torch.Tensor] | None:
        try:
            base = self._double(args, kwargs, seed=number)
            moved = [torch.zeros(o.shape, dtype=torch.float64) for o in base]
            for run in range(RUNS):
                with _Rounding(run):
                    others = self._double(args, kwargs, seed=number)
                moved = [torch.maximum(m, _distance(o, b)) for m, o, b in zip(moved, others, base, strict=True)]
        except Exception:  # the user's forward
            return None
        return moved


def _distance(other: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
    if not base.is_floating_point():
        return torch.zeros(base.shape, dtype=torch.float64)
    return torch.where(other.isfinite(), (other.double() - base.double()).abs(), torch.inf)


class _Rounding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Multiplies every float64 result by 1 + eps or 1 - eps, drawn from a generator of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if any(r.alias_info is not None for r in func._schema.returns):  # a view, or written in place
            return result
        return pytree.tree_map_only(torch.Tensor, self._rounded, result)

    def _rounded(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype is not torch.float64:
            return tensor
        signs = torch.randint(0, 2, tensor.shape, generator=self._generator) * 2 - 1
        return tensor * (1 + torch.finfo(torch.float64).eps * signs)
