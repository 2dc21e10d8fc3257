"""Policies that keep state between calls, one for each way of keeping it, and how to step them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from graphaudit.policy import Policy

OBS = torch.tensor([[0.3, -1.2, 2.0, 0.1]])


def draw(seed: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(1, 4, generator=torch.Generator().manual_seed(seed)),)


def policy_of(module: nn.Module, args: tuple[Any, ...] = (OBS,), inputs: Callable[..., Any] | None = draw) -> Policy:
    return Policy(type(module).__name__, module.eval(), args, inputs=inputs)


class Linear(nn.Module):
    """A layer with a number of inputs; each policy keeps its state in its own way."""

    def __init__(self, inputs: int = 4) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(inputs, 2)


class BufferGru(nn.Module):
    """A registered buffer, written in place, and a reset() of the user's own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.GRUCell(4, 6)
        self.head = nn.Linear(6, 2)
        self.register_buffer("hidden", torch.zeros(1, 6))

    def forward(self, obs):
        self.hidden.copy_(self.cell(obs, self.hidden))
        return self.head(self.hidden)


class TupleLstm(nn.Module):
    """A tuple in an attribute that is None at first."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rnn = nn.LSTM(4, 6)
        self.head = nn.Linear(6, 2)
        self.state = None

    def forward(self, obs):
        y, self.state = self.rnn(obs.unsqueeze(0), self.state)
        return self.head(y.squeeze(0))


class Counter(Linear):
    """A Python number that decides what happens, and an index into a ring of observations."""

    def __init__(self) -> None:
        super().__init__()
        self.t = 0
        self.register_buffer("ring", torch.zeros(3, 1, 4))

    def forward(self, obs):
        self.ring[self.t % 3] = obs
        action = self.layer(self.ring.sum(0))
        if self.t % 4 == 0:
            action = action + 1
        self.t += 1
        return action


class Decay(Linear):
    """A Python float, compared with a constant of float64."""

    def __init__(self) -> None:
        super().__init__()
        self.epsilon = 1.0

    def forward(self, obs):
        self.epsilon = max(0.05, self.epsilon * 0.9)
        return self.layer(obs) * self.epsilon


class FrameStack(Linear):
    """A list that the first call fills with the first observation."""

    def __init__(self) -> None:
        super().__init__(12)
        self.frames: list[torch.Tensor] = []

    def forward(self, obs):
        if not self.frames:
            self.frames = [obs, obs]
        self.frames.append(obs)
        self.frames = self.frames[-3:]
        return self.layer(torch.cat(self.frames, -1))


class Chunk(Linear):
    """Actions planned ahead in a queue, which is filled anew once it is used up."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 6)
        self.planned: deque[torch.Tensor] = deque()

    def forward(self, obs):
        if len(self.planned) == 0:
            self.planned.extend(self.layer(obs).chunk(3, -1))
        return self.planned.popleft()


class Window(Linear):
    """A deque that grows in the first calls."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: deque[torch.Tensor] = deque(maxlen=3)

    def forward(self, obs):
        self.frames.append(obs)
        return self.layer(torch.stack(list(self.frames)).mean(0))


@dataclass
class Memory:
    count: int = 0
    average: torch.Tensor = field(default_factory=lambda: torch.zeros(1, 4))


class Objects(Linear):
    """A dataclass and a dict, in the policy and in a part of it."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory()
        self.filter = Filter()

    def forward(self, obs):
        self.memory.count += 1
        self.memory.average = 0.9 * self.memory.average + 0.1 * obs
        return self.filter(self.layer(obs - self.memory.average)) / self.memory.count


class Filter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kept = {"y": torch.zeros(1, 2), "gain": 0.25}

    def forward(self, x):
        self.kept["y"] = self.kept["gain"] * x + (1 - self.kept["gain"]) * self.kept["y"]
        return self.kept["y"]


class DoneReset(Linear):
    """State written under a condition on tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.total = torch.zeros(1, 4)
        self.steps = 0

    def forward(self, obs):
        if (obs[:, 0] > 0.8).any():
            self.total = torch.zeros(1, 4)
            self.steps = 0
        self.steps += 1
        self.total = self.total + obs
        return self.layer(self.total / self.steps)


class Noisy(Linear):
    """State that a draw feeds."""

    def __init__(self) -> None:
        super().__init__()
        self.walk = torch.zeros(1, 2)

    def forward(self, obs):
        self.walk = 0.85 * self.walk + 0.3 * torch.randn(1, 2)
        return self.layer(obs) + self.walk


class Idle(Linear):
    """Writes that no result depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.last = None
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, obs):
        self.last = obs
        self.calls += 1
        return self.layer(obs)


class Growing(Linear):
    """A list without an end."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[torch.Tensor] = []

    def forward(self, obs):
        self.history.append(obs)
        return self.layer(torch.stack(self.history).mean(0))


class Arrays(Linear):
    """NumPy's arrays, replaced and written in place."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = np.zeros(4, dtype=np.float32)
        self.total = np.zeros(4)

    def forward(self, obs):
        self.mean = 0.9 * self.mean + 0.1 * obs.numpy().mean(0)
        self.total += obs.numpy()[0]
        return self.layer(obs - torch.from_numpy(self.mean)) + float(self.total.sum())


class Cache(Linear):
    """Keys of the last three calls, which the first calls have fewer of."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = None

    def forward(self, obs):
        key = obs.unsqueeze(1)
        self.cache = key if self.cache is None else torch.cat([self.cache, key], 1)[:, -3:]
        weights = torch.softmax(obs.unsqueeze(1) @ self.cache.transpose(1, 2), -1)
        return self.layer((weights @ self.cache).squeeze(1))


class Ring(Linear):
    """A cache with a position in a tensor, for each row of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(1, 5, 4))
        self.register_buffer("pos", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def forward(self, obs):
        self.cache[:, self.pos % 5] = obs
        self.pos = self.pos + 1
        return self.layer(self.cache.sum(1) / self.pos.clamp(max=5) - self.cache[:, self.pos % 5])


STATEFUL = (BufferGru, TupleLstm, Counter, Decay, FrameStack, Chunk, Window, Objects, DoneReset, Arrays, Cache, Ring)


def episode(module: nn.Module, steps: int = 12, seed: int = 100) -> tuple[list[Any], list[torch.Tensor]]:
    """Arguments of the steps of an episode, and what the module gives, called in a row."""
    calls = [draw(seed + step) for step in range(steps)]
    with torch.no_grad():
        return calls, [module(*args) for args in calls]


def thread(
    run: Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]], state: Sequence[torch.Tensor], calls: Sequence[Any]
) -> list[torch.Tensor]:
    """What a run of single steps gives over an episode: the first output of each step; the others are the state."""
    found = []
    for args in calls:
        result, *state = run([*args, *state])
        found.append(result)
    return found
