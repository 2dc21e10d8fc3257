"""Small policies that the equivalence tests run on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from graphaudit.equivalence.inputs import collect
from graphaudit.equivalence.reference import Reference
from graphaudit.policy import Policy


class Actor(nn.Module):
    """obs (batch, 4) → {'action': (batch, 3), 'value': (batch,)}."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.action, self.value = nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, obs: torch.Tensor) -> dict[str, torch.Tensor]:
        h = self.body(obs)
        return {"action": self.action(h), "value": self.value(h).squeeze(-1)}


class Greedy(nn.Module):
    """obs (batch, 4) → index of the largest logit, int64 (batch,)."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 3)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.net(obs).argmax(-1)


class NaiveSoftmax(nn.Module):
    """x (batch, 4) → softmax without subtracting the maximum: NaN in float32 from logits of 89 on."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)


class Apply(nn.Module):
    """Any function of its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def normal_inputs(seed: int) -> tuple[torch.Tensor]:
    """obs (2, 4), standard normal."""
    return (torch.randn(2, 4, generator=torch.Generator().manual_seed(seed)),)


def policy(module: nn.Module, *args: Any, **options: Any) -> Policy:
    """A policy over `module` in eval mode; obs (2, 4) of ones and `normal_inputs` unless told otherwise."""
    options.setdefault("inputs", None if args else normal_inputs)
    return Policy("actor.py:build", module.eval(), args or (torch.ones(2, 4),), **options)


def reference(module: nn.Module, *args: Any, count: int = 48, **options: Any) -> Reference:
    """A reference over `policy(module, *args, **options)`."""
    made = policy(module, *args, **options)
    return Reference(made, collect(made, count))


def runner(module: nn.Module) -> Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]:
    """Runs a module with positional tensor arguments and a tensor, tuple or dict of tensors as its result."""

    def run(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad():
            result = module(*inputs)
        if isinstance(result, dict):
            return list(result.values())
        return list(result) if isinstance(result, tuple) else [result]

    return run
