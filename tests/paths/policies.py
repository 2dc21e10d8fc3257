"""Small policies whose rare ways a check has to find."""

from __future__ import annotations

import torch
from torch import nn

from graphaudit.equivalence.inputs import collect
from graphaudit.equivalence.reference import Reference
from graphaudit.paths import Walked, walk
from graphaudit.policy import Policy


def near_zero(seed: int) -> tuple[torch.Tensor]:
    """obs (1, 4), a hundredth of a standard normal."""
    return (0.01 * torch.randn(1, 4, generator=torch.Generator().manual_seed(seed)),)


def walked(module: nn.Module, *args: object, count: int = 24, **options: object) -> tuple[Reference, Walked]:
    """The reference over few samples and what was found beyond them, already among its samples."""
    policy = Policy("rare.py:build", module.eval(), args or (torch.zeros(1, 4),), **options)  # type: ignore[arg-type]
    reference = Reference(policy, collect(policy, count))
    found = walk(policy, reference.samples)
    reference.extend(found.found)
    return reference, found


class SumAbove(nn.Module):
    """A threshold on a sum that inputs near zero stay far from; `right` is what happens beyond it."""

    def __init__(self, limit: float = 7.3, right: bool = True) -> None:
        super().__init__()
        self.limit, self.right = limit, right

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > self.limit:
            return -x if self.right else x
        return x


class ElementBelow(nn.Module):
    """A threshold on one element of many."""

    def __init__(self, right: bool = True) -> None:
        super().__init__()
        self.right = right

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        height = x[0, 2].item()
        if height < -55.5:
            x = x * 2 if self.right else x
        return x + 1


class Nested(nn.Module):
    """Two thresholds, the second of which matters beyond the first alone."""

    def __init__(self, right: bool = True) -> None:
        super().__init__()
        self.right = right

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x)
        if x.sum() > 40:
            y = y + 1
            if x[0, 0] - x[0, 1] > 90:
                y = y * 3 if self.right else y
        return y


class Mode(nn.Module):
    """An integer that picks a way."""

    def __init__(self, right: bool = True) -> None:
        super().__init__()
        self.right = right

    def forward(self, x: torch.Tensor, mode: torch.Tensor) -> torch.Tensor:
        if int(mode) == 3:
            return x.abs() if self.right else x
        return x - 1


class Steps(nn.Module):
    """A loop that only rarely runs as often as it may."""

    def __init__(self, limit: int = 5) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(min(int(x.abs().max()), self.limit)):
            x = x * 0.9
        return x


class Unreachable(nn.Module):
    """A branch that no number takes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * x
        if y.sum() < -1:
            return -x
        return x


class Static(nn.Module):
    """Decisions, none of which hangs on a tensor's value."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 3.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training or x.shape[0] > 4 or self.scale > 5:
            return x
        for k in range(3):
            x = x + (1 if k < 1 else 2)
        while x.dim() < 3:
            x = x.unsqueeze(0)
        return x


class Weights(nn.Module):
    """Decisions on weights, on what is computed from weights, and on a buffer that an input was written to."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((4,), 2.0))
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.scale.sum() > 100 or float((self.scale * torch.ones(4)).max()) > 5:
            return x
        self.seen[:] = x[0]
        return x * self.scale if self.seen.sum() > 9 else x
