"""Editing a captured program without losing track of where each node came from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import map_arg
from torch.fx.experimental.proxy_tensor import make_fx
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


def insert_function(
    successor: fx.Node,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    constants: Callable[[torch.Tensor, str], fx.Node] | None = None,
) -> Any:
    """Inline what `function` computes of `args` just before `successor`, on behalf of `successor`.

    `function` is written in torch as for eager; it is traced on the fake tensors of the nodes among `args`, so sizes
    that vary stay symbols. Tensors that it makes out of Python data are handed to `constants`, which returns their
    nodes (`Program.add_constant`). Returns the nodes of its result, in the structure of its result. Raises ValueError
    for such a tensor where there is no `constants`.
    """
    traced, nodes = trace_function(function, args, kwargs)
    copied: dict[fx.Node, Any] = dict(zip(traced.graph.find_nodes(op="placeholder"), nodes, strict=True))
    for inner in traced.graph.nodes:
        if inner.op == "call_function" and "val" in inner.meta:  # one that returns nothing only checks what it reads
            with successor.graph.inserting_before(successor):
                node = successor.graph.node_copy(inner, copied.__getitem__)
            node.meta = {"val": inner.meta["val"]}
            source = inner if "stack_trace" in inner.meta else successor  # a region's operators have lines of their own
            node.meta.update({key: source.meta[key] for key in _INHERITED if key in source.meta})
            copied[inner] = node
        elif inner.op == "get_attr":
            if constants is None:
                raise ValueError(f"{function.__name__} makes a tensor out of Python data")
            copied[inner] = constants(getattr(traced, str(inner.target)), "constant")
    return map_arg(traced.graph.output_node().args[0], copied.__getitem__)


def trace_function(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> tuple[fx.GraphModule, list[fx.Node]]:
    """What `function` computes of `args` as a graph, and the nodes among the arguments that are its inputs."""
    nodes, rebuild = _split(args, kwargs or {})

    def flat(*values: Any) -> Any:
        given, named = rebuild(values)
        return function(*given, **named)

    with torch.no_grad():
        traced = make_fx(flat, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*(n.meta["val"] for n in nodes))
    return traced, nodes


def cast_call(successor: fx.Node, value: fx.Node, dtype: torch.dtype) -> fx.Node:
    """`value` itself if it has `dtype`, else a cast to it just before `successor`."""
    if value.meta["val"].dtype == dtype:
        return value
    return insert_call(successor, torch.ops.aten._to_copy.default, (value,), {"dtype": dtype})


def replace_node(old: fx.Node, new: fx.Node) -> None:
    """Let every reader of `old` read `new`, and erase `old`."""
    old.replace_all_uses_with(new)
    old.graph.erase_node(old)


def replace_results(old: fx.Node, new: Any) -> None:
    """As `replace_node`; where `old` has several results, `new` holds a node for each."""
    if isinstance(new, fx.Node):
        replace_node(old, new)
        return
    for getitem in list(old.users):
        replace_node(getitem, new[getitem.args[1]])
    old.graph.erase_node(old)


def propagate_from(node: fx.Node) -> None:
    """Let the dtypes and shapes of what reads `node`, directly or through others, follow from its own."""
    changed = {node}
    for later in node.graph.nodes:
        sources = later.all_input_nodes
        if later.op == "call_function" and not changed.isdisjoint(sources) and all("val" in s.meta for s in sources):
            later.meta["val"] = _propagate(later)
            changed.add(later)


def is_only_asserted(size: fx.Node) -> bool:
    """Whether a number ends in assertions alone, perhaps through comparisons and arithmetic."""
    pending = list(size.users)
    while pending:
        node = pending.pop()
        if node.target is torch.ops.aten._assert_scalar.default:
            continue
        if getattr(node.target, "__module__", "") != "_operator" or not node.users:
            return False
        pending.extend(node.users)
    return True


def erase_with_readers(node: fx.Node) -> None:
    """Erase a node whose readers are assertions, and those with it."""
    for user in list(node.users):
        erase_with_readers(user)
    if node in node.graph.nodes:
        node.graph.erase_node(node)


def _split(
    args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[fx.Node], Callable[[Sequence[Any]], tuple[Sequence[Any], Mapping[str, Any]]]]:
    """The different nodes among the arguments, and a function that puts values in their places."""
    nodes: dict[fx.Node, int] = {}
    map_arg((args, kwargs), lambda n: nodes.setdefault(n, len(nodes)))

    def rebuild(values: Sequence[Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        return map_arg((tuple(args), dict(kwargs)), lambda n: values[nodes[n]])

    return list(nodes), rebuild


def _propagate(node: fx.Node) -> Any:
    args = map_arg(node.args, lambda n: n.meta["val"])
    kwargs = map_arg(node.kwargs, lambda n: n.meta["val"])
    held = (n.meta.get("val") for n in node.graph.find_nodes(op="placeholder"))  # where it reads sizes and no tensor
    leaves = itertools.chain(pytree.tree_leaves((args, kwargs)), held)
    modes = (getattr(leaf, "fake_mode", None) for leaf in leaves)
    mode = next((m for m in modes if m is not None), None) or FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        return node.target(*args, **kwargs)  # type: ignore[operator]
