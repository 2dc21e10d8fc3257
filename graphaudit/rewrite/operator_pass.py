"""The base of passes that write calls of one kind of operator in other operators, each call by itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from torch import fx

from graphaudit.graphs.fx_view import operator_name
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rewrite.edit import insert_function, replace_results
from graphaudit.rulebook.target import Target

Function = Callable[..., Any]


class OperatorPass(Pass[Program]):
    """Replaces calls of `target_ops`, in branches and loops too, by what a function written in torch computes."""

    level: ClassVar[Level] = Level.FX
    runs_after: ClassVar[tuple[str, ...]] = ("remove_inference_noops",)

    @abstractmethod
    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """A function that takes the arguments of `node` and returns what it returns, or why `node` stays."""

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Replace every call for which there is a replacement."""
        result = PassResult(artifact)
        for node in list(self.calls(artifact)):
            site = Site(node.name, artifact.place(node))
            chosen = self.replacement(artifact, node, target)
            if isinstance(chosen, str):
                result.left.append(Site(site.node, site.place, chosen))
            else:
                constants = artifact.add_constant if node.graph is artifact.graph else None
                replace_results(node, insert_function(node, chosen, node.args, node.kwargs, constants=constants))
                result.rewritten.append(site)
        if result.changed:
            for module in artifact.exported.graph_module.modules():
                if isinstance(module, fx.GraphModule) and module is not artifact.exported.graph_module:
                    module.graph.eliminate_dead_code()
                    module.recompile()
            artifact.finish()
        return result

    def calls(self, program: Program) -> Iterator[fx.Node]:
        """The calls of `target_ops`, in the main graph and in its subgraphs."""
        for module in program.exported.graph_module.modules():
            for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
                if self.takes(node):
                    yield node

    def takes(self, node: fx.Node) -> bool:
        """Whether it is a call of `target_ops`."""
        name = operator_name(node.target)[0] if node.op == "call_function" else ""
        return name in self.target_ops or name.rpartition(".")[0] in self.target_ops


def argument(node: fx.Node, name: str) -> Any:
    """What an ATen call is given for the parameter `name` of its schema; the default if it is not given."""
    for position, parameter in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if parameter.name == name:
            if not parameter.kwarg_only and position < len(node.args):
                return node.args[position]
            return node.kwargs.get(name, parameter.default_value)
    raise KeyError(name)


def shape(node: fx.Node) -> tuple[Any, ...]:
    """The sizes of a node's tensor; symbols where they vary."""
    return tuple(node.meta["val"].shape)


def results_read(node: fx.Node) -> set[int]:
    """Of a call that returns several tensors, the indices of those that anything reads."""
    return {int(user.args[1]) for user in node.users if user.users}  # type: ignore[arg-type]
