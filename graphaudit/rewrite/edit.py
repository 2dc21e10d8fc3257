"""Editing a captured program without losing track of where each node came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import map_arg
from torch.utils import _pytree as pytree

_INHERITED = ("stack_trace", "nn_module_stack", "from_node", "custom")


def insert_call(
    successor: fx.Node,
    target: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    source: fx.Node | None = None,
) -> fx.Node:
    """Call `target` just before `successor`, on behalf of `source` (by default `successor` itself).

    The new node inherits the source line; its dtype and shape come from running `target` on fake tensors.
    """
    source = source if source is not None else successor
    with successor.graph.inserting_before(successor):
        node = successor.graph.call_function(target, tuple(args), dict(kwargs or {}))
    node.meta.update({key: source.meta[key] for key in _INHERITED if key in source.meta})
    node.meta["val"] = _propagate(node)
    return node


def cast_call(successor: fx.Node, value: fx.Node, dtype: torch.dtype) -> fx.Node:
    """`value` itself if it has `dtype`, else a cast to it just before `successor`."""
    if value.meta["val"].dtype == dtype:
        return value
    return insert_call(successor, torch.ops.aten._to_copy.default, (value,), {"dtype": dtype})


def replace_node(old: fx.Node, new: fx.Node) -> None:
    """Let every reader of `old` read `new`, and erase `old`."""
    old.replace_all_uses_with(new)
    old.graph.erase_node(old)


def _propagate(node: fx.Node) -> Any:
    args = map_arg(node.args, lambda n: n.meta["val"])
    kwargs = map_arg(node.kwargs, lambda n: n.meta["val"])
    modes = (getattr(leaf, "fake_mode", None) for leaf in pytree.tree_leaves((args, kwargs)))
    mode = next((m for m in modes if m is not None), None) or FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        return node.target(*args, **kwargs)  # type: ignore[operator]
