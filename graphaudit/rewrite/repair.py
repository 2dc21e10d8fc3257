"""What passes have in common that give a number where the policy gives NaN or infinity."""

from __future__ import annotations

from graphaudit.graphs.nans import tests_behind
from graphaudit.graphs.view import GraphView, Node


def why_left(view: GraphView, node: Node) -> str:
    """Why what `node` computes must not be repaired; empty if it may."""
    if node.graph:
        return "it stands inside a branch or a loop"
    return "the policy asks whether the result is finite, and answers that itself" if tests_behind(view, node) else ""
