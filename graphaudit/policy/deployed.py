"""A policy that gives only those of its results that are deployed.

    forward(obs) → (action, value, log_prob)   →   forward(obs) → {"output_0": action}

Everything that only the other results need (a value head, log-probabilities) is then no part of what is captured.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn
from torch.utils import _pytree as pytree

from graphaudit.errors import PolicyError
from graphaudit.policy.policy import Policy
from graphaudit.text import counted, one_line, suggestion


def deployed(policy: Policy, outputs: Sequence[str]) -> Policy:
    """The policy with the results named in `outputs` alone, by their names or by their positions; `cut` names the rest.

    The results are a dict {name: result} in the policy's own order. Raises PolicyError for an unknown name.
    """
    names = [slot.name for slot in policy.interface.outputs]
    chosen = sorted({_position(name.strip(), names) for name in outputs})
    if len(chosen) == len(names):
        return policy
    kept = {names[i]: i for i in chosen}
    return replace(
        policy,
        module=Deployed(policy.module, kept),
        reference=Deployed(policy.reference, kept) if policy.reference is not None else None,
        exported=None,
        cut=tuple(name for name in names if name not in kept),
    )


def unread(module: nn.Module, read: Collection[str]) -> list[str]:
    """The outermost parts of a deployed module none of whose parameters is among those `read`, by the names that they
    have in the user's own module, with their numbers of parameters: `critic (385 parameters)`."""
    sizes = {name: parameter.numel() for name, parameter in module.named_parameters()}
    kept = {prefix for name in read for prefix in _prefixes(name)}
    left: Counter[str] = Counter()
    for name, size in sizes.items():
        if name not in read:
            left[next(prefix for prefix in _prefixes(name) if prefix not in kept)] += size
    return [f"{name.removeprefix('policy.')} ({counted(size, 'parameter')})" for name, size in left.items()]


def _prefixes(name: str) -> list[str]:
    """`a.b.c` → a, a.b, a.b.c."""
    parts = name.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


class Deployed(nn.Module):
    """`policy`, of whose results, None aside, only those at the positions in `kept` are returned, by name."""

    def __init__(self, policy: nn.Module, kept: Mapping[str, int]) -> None:
        super().__init__()
        self.policy = policy
        self.kept = dict(kept)
        self.training = policy.training
        self.__class__ = _with_signature_of(policy.forward)

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """What is kept of the policy's results."""
        return self._only(self.policy(*args, **kwargs))

    def _only(self, result: Any) -> dict[str, Any]:
        leaves = [leaf for leaf in pytree.tree_leaves(result) if leaf is not None]
        return {name: leaves[position] for name, position in self.kept.items()}


def _with_signature_of(forward: Callable[..., Any]) -> type[Deployed]:
    """`Deployed` whose forward names the parameters of the policy's own: inputs are named after them."""

    def renamed(self: Deployed, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return Deployed.forward(self, *args, **kwargs)

    try:
        own = inspect.signature(forward).parameters.values()
    except ValueError:  # a scripted or native forward
        return Deployed
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    renamed.__signature__ = inspect.Signature([first, *own])  # type: ignore[attr-defined]
    return type("Deployed", (Deployed,), {"forward": renamed})


def _position(name: str, names: Sequence[str]) -> int:
    if name in names:
        return names.index(name)
    if name.isdecimal() and int(name) < len(names):
        return int(name)
    known = f"Its outputs are {', '.join(names)}."
    raise PolicyError(
        f"the policy has no output {one_line(name)!r}", " ".join(filter(None, [suggestion(name, names), known]))
    )
