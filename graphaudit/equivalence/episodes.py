"""Policies with state are compared in episodes: every step on its own, and whole episodes from the first state on.

One step is a call of the stepped policy (`graphaudit.policy.stepping`), whose samples hold the states that eager came
to. A whole episode is one call of a longer policy, `Episode`, so that the tolerance is that of the episode's own
float64 copy, and its draws are one sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from graphaudit.equivalence.eager import Eager
from graphaudit.equivalence.inputs import Sample
from graphaudit.equivalence.reference import Reference
from graphaudit.interface import GuardSlot, interface_of, resize
from graphaudit.policy import Policy
from graphaudit.policy.stepping import KEYWORD

STEPS = 8
EPISODES = 4

Run = Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]


def with_states(policy: Policy, samples: Sequence[Sample], steps: int = STEPS) -> list[Sample]:
    """The samples with the state in which eager finds itself in episodes over them; `policy` is the stepped one.

    A new episode starts after `steps` steps, and where a sample has other sizes. A sample far outside of what was seen
    gets a state of the episode, but the episode goes on from the state before it.
    """
    eager = Eager(policy.working, policy.interface)
    found: list[Sample] = []
    state: tuple[torch.Tensor, ...] | None = None
    done, sizes = 0, None
    for sample in samples:
        now = _sizes(policy, sample)
        if state is None or done == steps or now != sizes:
            state, done, sizes = initial_state(policy, now), 0, now
        found.append(replace(sample, kwargs={**sample.kwargs, KEYWORD: state}))
        if sample.is_far:
            continue
        try:
            results = eager(found[-1].args, found[-1].kwargs, seed=len(found) - 1)
        except Exception:  # the user's forward; Reference says so, or leaves the sample out
            state = None
            continue
        state = tuple(results[len(results) - len(state) :])
        done += 1
    return found


def initial_state(policy: Policy, sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
    """The first values at some sizes of the named dimensions."""
    return tuple(resize(s.initial, s.input.shape, sizes) for s in policy.interface.state)


class Episode(nn.Module):
    """Several calls of a policy in a row: the results of all of them."""

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, *calls: Any) -> Any:
        """Each call is (positional arguments, keywords)."""
        return [self.policy(*args, **kwargs) for args, kwargs in calls]


def episodes(policy: Policy, samples: Sequence[Sample], guards: Sequence[GuardSlot] = ()) -> Reference:
    """A reference of whole episodes of `policy`, the user's own, over those samples that lie where values were seen."""
    near = [s for s in samples if not s.is_far and _sizes(policy, s) == _sizes(policy, samples[0])]
    count = max(1, min(EPISODES, len(near) // STEPS))
    calls = [tuple((near[(e * STEPS + i) % len(near)]) for i in range(STEPS)) for e in range(count)]
    made = [Sample(tuple((s.args, s.kwargs) for s in call), {}, f"episode({call[0].origin})") for call in calls]
    module = Episode(policy.working.module)
    longer = replace(policy, module=module, example_args=made[0].args, example_kwargs={}, inputs=None, exported=None)
    result = longer.working(*longer.example_args)
    longer.__dict__["interface"] = interface_of(module.forward, longer.example_args, {}, result)
    return Reference(longer, made, guards)


def through(run: Run, policy: Policy) -> Run:
    """A run of whole episodes, by a run of single steps that takes the state after the arguments and gives it after
    the results; `policy` is the stepped one."""
    state = policy.interface.state
    arguments, results = (len(s) - len(state) for s in (policy.interface.inputs, policy.interface.outputs))

    def episode(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        names = [d for slot in policy.interface.inputs[:arguments] for d in slot.shape]
        sizes = dict(zip(names, (size for t in inputs[:arguments] for size in t.shape)))
        held = list(initial_state(policy, {n: s for n, s in sizes.items() if isinstance(n, str)}))
        found: list[torch.Tensor] = []
        guards: list[list[torch.Tensor]] = []
        for given in _steps(inputs, arguments):
            out = list(run([*given, *held]))
            found += out[:results]
            held = out[results : results + len(state)]
            guards.append([torch.as_tensor(g).reshape(()) for g in out[results + len(state) :]])
        return [*found, *(torch.stack(steps).any() for steps in zip(*guards))]

    return episode


def _steps(inputs: Sequence[torch.Tensor], width: int) -> Iterator[Sequence[torch.Tensor]]:
    return (inputs[i * width : (i + 1) * width] for i in range(STEPS))


def _sizes(policy: Policy, sample: Sample) -> dict[str, int]:
    tensors = [t for t in pytree.tree_leaves((sample.args, sample.kwargs)) if isinstance(t, torch.Tensor)]
    return {
        name: size
        for slot, tensor in zip(policy.interface.inputs, tensors)
        for name, size in zip(slot.shape, tensor.shape)
        if isinstance(name, str)
    }
