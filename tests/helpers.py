"""What tests of several areas share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from graphaudit.graphs.program import Program
from graphaudit.policy import Policy


def make_program(
    module: nn.Module,
    args: tuple[Any, ...],
    dynamic_shapes: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> tuple[Policy, Program]:
    """A policy and its graph, by plain `torch.export` and the default decompositions.

    `dynamic_shapes` is written as users write it: for each positional argument None or {dimension: "name"}.
    """
    module = module.eval()
    policy = Policy(type(module).__name__, module, args, dict(kwargs or {}), dynamic_shapes=dynamic_shapes)
    interface = policy.interface  # registers the structures of the result with torch's pytrees
    dims: dict[str, Any] = {}
    shapes = None if dynamic_shapes is None else tuple(_dims(a, s, dims) for a, s in zip(args, dynamic_shapes))
    if shapes is not None and kwargs:
        raise NotImplementedError("dynamic_shapes together with keyword arguments")
    with torch.no_grad():
        exported = torch.export.export(module, args, dict(kwargs or {}), dynamic_shapes=shapes, strict=False)
        return policy, Program(exported.run_decompositions({}), interface)


def _dims(value: Any, entry: Any, dims: dict[str, Any]) -> Any:
    """`entry` with every name replaced by the one `Dim` of that name; names may stand for any size from 1 up."""
    if entry is None:
        return pytree.tree_map(lambda _: None, value)
    if isinstance(value, torch.Tensor):
        return {axis: dims.setdefault(name, Dim(name)) for axis, name in entry.items()}
    if isinstance(value, Mapping):
        return {key: _dims(item, entry.get(key), dims) for key, item in value.items()}
    return type(value)(_dims(item, child, dims) for item, child in zip(value, entry))
