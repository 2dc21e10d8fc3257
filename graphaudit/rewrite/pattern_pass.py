"""The base of passes that find an expression of several operators, and write it as a function of its one input."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.program import Program
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.rewrite.base import INSIDE_REGION, Level, Pass, PassResult
from graphaudit.rewrite.edit import insert_function, replace_node
from graphaudit.rulebook.target import Target


@dataclass(frozen=True)
class Found:
    """An expression that is `function` of `input`; `reason` says why it stays nevertheless."""

    input: Value
    function: Callable[[Tensor], Tensor]
    reason: str = ""


class PatternPass(Pass[Program]):
    """Replaces expressions of the main graph that end in one of `ends`."""

    level: ClassVar[Level] = Level.FX
    ends: ClassVar[tuple[str, ...]]

    @abstractmethod
    def find(self, view: GraphView, node: Node) -> Found | None:
        """The expression that `node` ends; None where it ends none."""

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Replace every such expression, whatever the target."""
        del target
        result = PassResult(artifact)
        view = view_program(artifact)
        nodes = {n.name: n for n in artifact.graph.nodes}
        for node in view.select(*self.ends):
            found = self.find(view, node)
            if found is None:
                continue
            reason = INSIDE_REGION if node.graph else found.reason
            if not reason:
                new = insert_function(nodes[node.name], found.function, (nodes[found.input.name],))
                replace_node(nodes[node.name], new)
                nodes[node.name] = new
            result.record(node.name, node.place, reason)
        if result.changed:
            artifact.finish()
        return result
