"""Arguments that are None in the example and tensors in other calls, as a recurrent policy's first state: inputs of the
graph where zeros stand for None.

torch's recurrent layers take None for zeros (https://docs.pytorch.org/docs/stable/generated/torch.nn.GRU.html); whether
the policy does is seen by calling it with either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from graphaudit.policy import Policy

_SEEDS = 32


def with_zeros_for_none(policy: Policy) -> Policy:
    """The policy with tensors of zeros for every positional argument that is None in the example and given by
    `inputs(seed)`; itself where there is none, or where None is not the same to it as zeros."""
    absent = [i for i, value in enumerate(policy.example_args) if value is None]
    if not absent or policy.inputs is None or policy.exported is not None:
        return policy
    calls = _calls(policy)
    zeros = {i: z for i in absent if (z := _zeros([call[i] for call in calls if len(call) > i])) is not None}
    filled = replace(policy, example_args=_filled(policy.example_args, zeros))
    if not zeros or not all(_is_same(policy, call, _filled(call, zeros)) for call in (policy.example_args, *calls)):
        return policy
    inputs, leaves = policy.inputs, pytree.tree_leaves_with_path(tuple(filled.example_args))
    return replace(
        filled,
        inputs=lambda seed: _filled(inputs(seed), zeros),
        optional=tuple("args" + pytree.keystr(keys) for keys, _ in leaves if keys[0].idx in zeros),  # type: ignore[attr-defined]
    )


def _calls(policy: Policy) -> list[Sequence[Any]]:
    found: list[Sequence[Any]] = []
    for seed in range(_SEEDS):
        try:
            found.append(tuple(policy.inputs(seed)))  # type: ignore[misc]
        except Exception:  # the user's function; where it is compared, that it fails is reported
            break
    return found


def _zeros(values: Sequence[Any]) -> Any:
    """Zeros in the structure of the first value that is not None, where all its leaves are tensors; else None."""
    given = next((v for v in values if v is not None), None)
    leaves = pytree.tree_leaves(given)
    return pytree.tree_map(torch.zeros_like, given) if all(isinstance(v, torch.Tensor) for v in leaves) else None


def _filled(args: Sequence[Any], zeros: dict[int, Any]) -> tuple[Any, ...]:
    return tuple(pytree.tree_map(torch.clone, zeros[i]) if v is None and i in zeros else v for i, v in enumerate(args))


def _is_same(policy: Policy, call: Sequence[Any], filled: Sequence[Any]) -> bool:
    """Whether a call with None gives what the call with zeros gives; true where the two are one."""
    if all(a is b for a, b in zip(call, filled, strict=True)):
        return True
    try:
        one, other = (policy.working(*args, **policy.example_kwargs) for args in (call, filled))
        torch.testing.assert_close(pytree.tree_leaves(other), pytree.tree_leaves(one), equal_nan=True)
    except Exception:  # whatever the policy raises on zeros, or assert_close where it differs
        return False
    return True
