"""Numbers of Python's among the arguments that vary from call to call: as 0-d tensors they are inputs of the graph.

int becomes int64, float float64 (both exact), bool bool. The policy's own code has its numbers back; while masks are
made, they are numbers whose value the graph knows when it runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.session import is_capturing
from graphaudit.policy import Policy

_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64}
_SEEDS = 32


def with_tensors_for_numbers(policy: Policy) -> Policy:
    """The policy with a 0-d tensor for every number that `inputs(seed)` varies; itself where none varies.

    The largest integer that was seen is the bound of a loop that the argument counts, where it has none of its own.
    """
    if policy.inputs is None or policy.exported is not None:
        return policy
    leaves, spec = pytree.tree_flatten(tuple(policy.example_args))
    places = [i for i, leaf in enumerate(leaves) if type(leaf) in _DTYPES]
    seen = _seen(policy, spec) if places else []
    varying = {i: type(leaves[i]) for i in places if any(_differs(call[i], leaves[i]) for call in seen)}
    if not varying:
        return policy
    inputs = policy.inputs
    largest = {i: max(int(call[i]) for call in (leaves, *seen)) for i, kind in varying.items() if kind is int}
    return replace(
        policy,
        module=_wrapped(policy.module, varying, largest),
        reference=None if policy.reference is None else _wrapped(policy.reference, varying, largest),
        example_args=_lowered(policy.example_args, varying),
        inputs=lambda seed: _lowered(inputs(seed), varying),
        numbers=tuple(_path(policy.example_args, i) for i in varying),
    )


def _seen(policy: Policy, spec: pytree.TreeSpec) -> list[list[Any]]:
    found = []
    for seed in range(_SEEDS):
        try:
            leaves, structure = pytree.tree_flatten(tuple(policy.inputs(seed)))  # type: ignore[misc]
        except Exception:  # the user's function; where it is compared, that it fails is reported
            break
        if structure == spec:
            found.append(leaves)
    return found


def _differs(value: Any, example: Any) -> bool:
    return type(value) is type(example) and value != example


def _path(args: Sequence[Any], place: int) -> str:
    return "args" + pytree.keystr(pytree.tree_leaves_with_path(tuple(args))[place][0])


def _lowered(args: Sequence[Any], varying: dict[int, type]) -> tuple[Any, ...]:
    leaves, spec = pytree.tree_flatten(tuple(args))
    for place, kind in varying.items():
        if type(leaves[place]) is kind:
            leaves[place] = torch.tensor(leaves[place], dtype=_DTYPES[kind])
    made: tuple[Any, ...] = pytree.tree_unflatten(leaves, spec)
    return made


class _Numbers(nn.Module):
    """A policy's module, called with tensors in place of numbers."""

    def __init__(self, module: nn.Module, varying: dict[int, type], largest: dict[int, int]) -> None:
        super().__init__()
        self.policy = module
        self._varying = varying
        self._largest = largest

    def _raised(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        leaves, spec = pytree.tree_flatten(args)
        for place in self._varying:
            if isinstance(leaves[place], torch.Tensor):
                leaves[place] = self._number(place, leaves[place]) if is_capturing() else leaves[place].item()
        made: tuple[Any, ...] = pytree.tree_unflatten(leaves, spec)
        return made

    def _number(self, place: int, tensor: torch.Tensor) -> Number:
        number = Number.of(tensor)
        number.seen = self._largest.get(place)
        return number


def _wrapped(module: nn.Module, varying: dict[int, type], largest: dict[int, int]) -> nn.Module:
    """`_Numbers` with a forward of the module's own signature."""
    own: Callable[..., Any] = type(module).forward

    @functools.wraps(own, updated=())
    def forward(self: _Numbers, *args: Any, **kwargs: Any) -> Any:
        return self.policy(*self._raised(args), **kwargs)

    made: nn.Module = type(type(module).__name__, (_Numbers,), {"forward": forward})(module, varying, largest)
    return made.train(module.training)
