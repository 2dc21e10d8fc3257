"""What passes have in common that give a number where the policy gives NaN or infinity."""

from __future__ import annotations

from graphaudit.graphs.nans import tests_behind
from graphaudit.graphs.view import GraphView, Node
from graphaudit.rewrite.base import INSIDE_REGION


def why_left(view: GraphView, node: Node) -> str:
    """Why what `node` computes must not be repaired; empty if it may."""
    if node.graph:
        return INSIDE_REGION
    return "the policy asks whether the result is finite, and answers that itself" if tests_behind(view, node) else ""
