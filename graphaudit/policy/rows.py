"""Which axis of a policy's state has one entry for each row of the batch, found by moving one row at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from graphaudit.policy.policy import Policy
from graphaudit.policy.seeds import preserved_generators, seed_generators
from graphaudit.policy.stepping import KEYWORD, Stepped

Values = Mapping[str, torch.Tensor]


def row_axes(policy: Policy, module: Stepped) -> dict[str, int]:
    """Path of a part of the state → its axis of rows; without those that have none, or where the batch is one row.

    A row of the batch is an entry on the first axis of every argument. The axis is the one that carries the name of
    that dimension; else the one along which moving a row of the arguments moves no other entry; where the arguments
    do not move the part at all, the only axis of the batch's size.
    """
    leaves = [v for v in pytree.tree_leaves((policy.example_args, policy.example_kwargs)) if _is_batched(v)]
    batches = {leaf.shape[0] for leaf in leaves}
    if len(batches) != 1:
        return {}
    size = batches.pop()
    name = next((slot.shape[0] for slot in policy.interface.inputs if slot.shape), None)
    axes: dict[str, int] = {}
    moved = _moved(policy, module, size) if size > 1 else {}
    for path, part in module.parts.items():
        if isinstance(name, str) and name in part.shape:
            axes[path] = part.shape.index(name)
        elif size > 1:
            found = [a for a in range(len(part.shape)) if part.shape[a] == size and _alone(moved.get(path, {}), a)]
            if len(found) == 1:
                axes[path] = found[0]
    return axes


def _alone(moved: Mapping[int, torch.Tensor], axis: int) -> bool:
    """Whether moving a row moved nothing but that entry on the axis."""
    for row, mask in moved.items():
        touched = mask.movedim(axis, 0).reshape(mask.shape[axis], -1).any(1).nonzero().flatten().tolist()
        if touched not in ([], [row]):
            return False
    return True


def _moved(policy: Policy, module: Stepped, size: int) -> dict[str, dict[int, torch.Tensor]]:
    """Path → row → which elements of the part after two calls differ when that row of the arguments is another."""
    try:
        base = _after(policy, module, None)
        others = {row: _after(policy, module, row) for row in {0, size - 1}}
    except Exception:  # the user's forward does not take other values
        return {}
    return {
        path: {row: other[path] != base[path] for row, other in others.items() if other[path].shape == base[path].shape}
        for path in base
    }


def _after(policy: Policy, module: Stepped, row: int | None) -> Values:
    def move(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        leaf = leaf.clone()
        if row is not None and _is_batched(leaf) and leaf.is_floating_point():
            leaf[row] += 0.5
        return leaf

    state = tuple(part.initial for part in module.parts.values())
    with preserved_generators(), policy.working.fresh():
        seed_generators(0)
        for _ in range(2):
            args, kwargs = pytree.tree_map(move, (tuple(policy.example_args), dict(policy.example_kwargs)))
            _, state = module(*args, **kwargs, **{KEYWORD: state})
    return dict(zip(module.parts, state))


def _is_batched(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dim() > 0
