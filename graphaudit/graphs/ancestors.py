"""What nodes of an FX graph are computed from. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable


def ancestors(nodes: Iterable[object]) -> set[str]:
    """Names of the nodes that some nodes are computed from, themselves included; what is no node is left out."""
    seen: set[str] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        name = getattr(node, "name", None)
        if name is not None and name not in seen:
            seen.add(name)
            stack.extend(node.all_input_nodes)  # type: ignore[attr-defined]
    return seen
