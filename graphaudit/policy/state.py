"""What a module keeps between calls: found by walking its attributes, read as leaves, and put back in place.

Leaves are tensors, NumPy's arrays of numbers, Python numbers, texts and members of enums. Lists, dicts, deques, tuples
and objects of the user's own classes are walked into; whatever else an attribute holds is taken as it is. Paths are
written as Python would: `rnn.h`, `frames[0]`, `config.gain`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import nn

from graphaudit.policy.usercode import is_users

_TORCHS_OWN = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training", "forward")
_PLAIN = (type(None), torch.dtype, torch.device)

CHOSEN = (str, bytes, Enum)  # kept as an index into the values that it takes


@dataclass(frozen=True)
class Leaf:
    """A tensor, an array, a number or one of several texts or members of an enum at a path."""

    path: str
    value: Any

    @property
    def kind(self) -> type | None:
        """bool, int, float, np.ndarray, or the type of a text or an enum; None for a tensor."""
        return None if isinstance(self.value, torch.Tensor) else type(self.value)


@dataclass(frozen=True)
class Static:
    """Something that no graph can carry and that stays what it is."""

    value: Any


@dataclass(frozen=True)
class Held:
    """A container that is filled in place, so that whoever else holds it sees the same."""

    container: Any
    keys: tuple[Any, ...]
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Row:
    """A tuple."""

    cls: type
    items: tuple[Node, ...]


Node = Leaf | Static | Held | Row


@dataclass(frozen=True)
class Root:
    """An attribute or a buffer of one of the module's parts."""

    path: str
    owner: nn.Module
    name: str
    is_buffer: bool

    @property
    def table(self) -> dict[str, Any]:
        """The dict that holds it."""
        return self.owner._buffers if self.is_buffer else vars(self.owner)


@dataclass
class Layout:
    """The attributes of a module at one moment."""

    nodes: dict[str, tuple[Root, Node]] = field(default_factory=dict)

    @classmethod
    def of(cls, module: nn.Module, only: set[str] | None = None, numbers: tuple[type, ...] = ()) -> Layout:
        """What `module` holds now, under the root paths `only`, where given. Values of the types `numbers` are leaves,
        too."""
        walk = _Walk(numbers)
        found = ((root, root.table[root.name]) for root in _roots(module) if only is None or root.path in only)
        return cls({root.path: (root, walk.node(value, root.path)) for root, value in found})

    def only(self, roots: set[str]) -> Layout:
        """The part under some roots."""
        return Layout({path: node for path, node in self.nodes.items() if path in roots})

    def leaves(self) -> dict[str, Leaf]:
        """The leaves by path."""
        found: dict[str, Leaf] = {}
        for _, node in self.nodes.values():
            found.update((leaf.path, leaf) for leaf in _leaves(node))
        return found

    def roots_of(self, paths: Set[str]) -> set[str]:
        """The roots under which some leaves stand."""
        return {root for root, (_, node) in self.nodes.items() if any(leaf.path in paths for leaf in _leaves(node))}

    def shape(self) -> dict[str, Any]:
        """For each root its structure: equal where the same leaves, of one kind, stand in the same containers."""
        return {path: _shape(node) for path, (_, node) in self.nodes.items()}

    def install(self, values: Mapping[str, Any]) -> None:
        """Put every attribute to what it was, with `values` (by path) in place of those leaves."""
        for root, node in self.nodes.values():
            root.table[root.name] = _installed(node, values)

    def statics(self) -> Iterator[tuple[Root, Any]]:
        """What no graph can carry, with the attribute in which it stands."""
        for root, node in self.nodes.values():
            yield from ((root, n.value) for n in _nodes(node) if isinstance(n, Static))

    def held(self) -> Iterator[Held]:
        """The containers."""
        for _, node in self.nodes.values():
            yield from (n for n in _nodes(node) if isinstance(n, Held))


def roots_of(module: nn.Module, paths: Set[str]) -> list[Root]:
    """The attributes and buffers under which some leaves stand."""
    layout = Layout.of(module)
    return [layout.nodes[path][0] for path in sorted(layout.roots_of(paths))]


def fill(container: Any, keys: tuple[Any, ...], items: list[Any]) -> None:
    """Let a list, deque, dict or object hold exactly these items."""
    if isinstance(container, list):
        container[:] = items
    elif isinstance(container, deque):
        container.clear()
        container.extend(items)
    else:
        table = container if isinstance(container, dict) else vars(container)
        table.clear()
        table.update(zip(keys, items))


def contents(container: Any) -> tuple[tuple[Any, ...], list[Any]]:
    """The keys (of a dict or an object) and the items of a container."""
    if isinstance(container, list | deque):
        return (), list(container)
    table = container if isinstance(container, dict) else vars(container)
    return tuple(table), list(table.values())


def _roots(module: nn.Module) -> Iterator[Root]:
    for prefix, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):  # its attributes are not Python's
            continue
        names = [n for n in vars(part) if n not in _TORCHS_OWN and not n.endswith(("_hooks", "_hooks_with_kwargs"))]
        for name, is_buffer in [*((n, True) for n in part._buffers), *((n, False) for n in names)]:
            yield Root(f"{prefix}.{name}" if prefix else name, part, name, is_buffer)


class _Walk:
    """Turns values into nodes; a container that is met twice is one node."""

    def __init__(self, numbers: tuple[type, ...]) -> None:
        self._leaves = (torch.Tensor, bool, int, float, *CHOSEN, *numbers)
        self._seen: dict[int, Node] = {}

    def node(self, value: Any, path: str) -> Node:
        """The node of a value at a path."""
        if isinstance(value, self._leaves) and not isinstance(value, nn.Parameter):
            return Leaf(path, value)
        if type(value) is np.ndarray and value.dtype.kind in "biuf":
            return Leaf(path, value)
        if isinstance(value, tuple):
            fields = getattr(value, "_fields", None)
            steps = [f".{f}" for f in fields] if fields else [f"[{i}]" for i in range(len(value))]
            return Row(type(value), self._items(value, path, steps))
        if not (type(value) in (list, dict, deque) or is_users(value)) or isinstance(value, nn.Module):
            return Static(value)
        if id(value) not in self._seen:
            self._seen[id(value)] = Static(value)  # where it holds itself
            keys, items = contents(value)
            steps = [_step(value, k) for k in keys] or [f"[{i}]" for i in range(len(items))]
            self._seen[id(value)] = Held(value, keys, self._items(items, path, steps))
        return self._seen[id(value)]

    def _items(self, items: Sequence[Any], path: str, steps: list[str]) -> tuple[Node, ...]:
        return tuple(self.node(item, path + step) for item, step in zip(items, steps))


def _step(container: Any, key: Any) -> str:
    return f"[{key!r}]" if isinstance(container, dict) else f".{key}"


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, Held | Row):
        for item in node.items:
            yield from _nodes(item)


def _leaves(node: Node) -> Iterator[Leaf]:
    return (n for n in _nodes(node) if isinstance(n, Leaf))


def _shape(node: Node) -> Any:
    if isinstance(node, Leaf):
        if isinstance(node.value, torch.Tensor):
            return node.path, str(node.value.dtype), tuple(node.value.shape)
        if isinstance(node.value, np.ndarray):
            return node.path, node.kind, node.value.dtype.name, node.value.shape
        return node.path, node.kind
    if isinstance(node, Held):
        return type(node.container), node.keys, tuple(map(_shape, node.items))
    if isinstance(node, Row):
        return node.cls, tuple(map(_shape, node.items))
    return node.value if isinstance(node.value, _PLAIN) else type(node.value)


def _installed(node: Node, values: Mapping[str, Any]) -> Any:
    if isinstance(node, Leaf):
        return values.get(node.path, node.value)
    if isinstance(node, Static):
        return node.value
    items = [_installed(item, values) for item in node.items]
    if isinstance(node, Row):
        return node.cls(*items) if hasattr(node.cls, "_fields") else node.cls(items)
    fill(node.container, node.keys, items)
    return node.container
