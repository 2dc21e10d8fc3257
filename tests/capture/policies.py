"""Small policies, each with one thing that capture has to notice."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from graphaudit.policy import Policy


class Function(nn.Module):
    """A policy whose forward is a function of its module and the observation."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.net = nn.Linear(4, 2)
        self.register_buffer("memory", torch.zeros(1, 4))
        self.steps = 0
        self.history: list[torch.Tensor] = []
        self.function = function

    def forward(self, obs: torch.Tensor) -> Any:
        return self.function(self, obs)


def policy(
    function: Callable[..., Any],
    example: torch.Tensor | None = None,
    inputs: Callable[[int], Sequence[Any]] | None = None,
    dynamic_shapes: Sequence[Any] | None = None,
) -> Policy:
    """`function(module, obs)` as a policy on a batch of two observations of width four."""
    torch.manual_seed(0)
    obs = torch.ones(2, 4) if example is None else example
    return Policy("function", Function(function).eval(), (obs,), {}, inputs, dynamic_shapes)


def draws(seed: int) -> tuple[torch.Tensor]:
    """Observations of the usual shape."""
    return (torch.randn(2, 4, generator=torch.Generator().manual_seed(seed)),)


def three_decisions(self: Function, obs: torch.Tensor) -> torch.Tensor:
    if obs.sum() > 100:
        obs = obs * 2
    scale = obs.abs().max().item()
    while obs.norm() > 50:
        obs = obs / 2
    return self.net(obs) * scale


def random_scale(self: Function, obs: torch.Tensor) -> torch.Tensor:
    return self.net(obs) * random.betavariate(2.0, 3.0)


def numpy_noise(self: Function, obs: torch.Tensor) -> torch.Tensor:
    out = self.net(obs)
    noise = np.random.gamma(2.0, size=2)
    return out + torch.as_tensor(noise, dtype=torch.float32)


def stamped(self: Function, obs: torch.Tensor) -> torch.Tensor:
    return self.net(obs) + 0.0 * time.time()


def remembers(self: Function, obs: torch.Tensor) -> torch.Tensor:
    self.memory.mul_(0.5).add_(obs[:1])
    return self.net(self.memory)


def counts(self: Function, obs: torch.Tensor) -> torch.Tensor:
    self.steps += 1
    return self.net(obs) * self.steps


def collects(self: Function, obs: torch.Tensor) -> torch.Tensor:
    self.history.append(obs)
    return self.net(torch.stack(self.history).mean(0))


def half_the_batch(self: Function, obs: torch.Tensor) -> torch.Tensor:
    return self.net(obs)[: int(str(len(obs))) // 2]


def clean(self: Function, obs: torch.Tensor) -> torch.Tensor:
    return torch.tanh(self.net(obs))


def samples(self: Function, obs: torch.Tensor) -> torch.Tensor:
    return torch.distributions.Normal(self.net(obs), 1.0).sample()


def validated(self: Function, obs: torch.Tensor) -> torch.Tensor:
    distribution = torch.distributions.Categorical(logits=self.net(obs), validate_args=True)
    return distribution.log_prob(distribution.mode)


def constant_count(self: Function, obs: torch.Tensor) -> tuple[torch.Tensor, int, None]:
    return self.net(obs), 3, None


def by_hand(scores: torch.Tensor) -> torch.Tensor:
    weights = torch.exp(scores)
    return weights / weights.sum(-1, keepdim=True)


def helped(self: Function, obs: torch.Tensor) -> torch.Tensor:
    return by_hand(self.net(obs))
