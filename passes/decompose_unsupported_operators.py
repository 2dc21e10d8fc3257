"""Operators that torch cannot write in ONNX become operators that it can, by the first way that works.

    op(x)  →  what a pass of the library makes of it (every OperatorPass that fixes unsupported-op,
              those that run by themselves and those that do not)
           →  what torch's own decomposition or reference implementation makes of it
           →  for an operator of torch's references (prims.lgamma), its eager twin (aten.lgamma)
           →  for an operator that reads no tensor (fft_rfftfreq), its value

- No list of operators: each node is looked up in the registry of torch's exporter, for the opset of the target. A node
  with a translation that the target's rulebook refused, and that no ONNX pass could mend, is marked (`meta["lacks"]`)
  and comes back here; then the graph is translated again.
- A way works if every operator that it leaves has a translation, or can be made legal by the same ways, which may not
  lead back to an operator that is being made legal. Otherwise the next way is tried from the start.
- What torch decomposes of itself into operators with translations is left to torch.
- Left alone: nodes for which no way works, each with what every way failed on.

Each way is as exact as its source; the check of the pass decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import fx

from graphaudit.equivalence.verdict import Claim, Conversion
from graphaudit.graphs.noise import draws
from graphaudit.graphs.program import Program
from graphaudit.registry import passes
from graphaudit.rewrite.base import LACKS, Level, Pass, PassResult, Site
from graphaudit.rewrite.edit import insert_function, replace_results, trace_function
from graphaudit.rewrite.operator_pass import Function, OperatorPass
from graphaudit.rulebook.target import Target
from graphaudit.rulebook.translations import decomposition, eager_twin, is_untranslated


class DecomposeUnsupportedOperators(Pass[Program]):
    """Operators without an ONNX translation → operators that have one."""

    name = "decompose_unsupported_operators"
    level = Level.FX
    fixes = ("unsupported-op", "linalg")
    runs_last = True
    claims = Claim.EQUIVALENT

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Make every call legal for which there is a way."""
        result = PassResult(artifact)
        if target.graph != "onnx":
            return result
        for node in [n for n in artifact.calls() if LACKS in n.meta or is_untranslated(n, target.opset)]:
            if LACKS not in node.meta and _is_left_to_torch(node, target.opset):
                continue
            name, operator, place, lacking = node.name, str(node.target), artifact.place(node), node.meta.pop(LACKS, "")
            way, tried = _Conversion(artifact, target).convert(node)
            lacks = lacking or f"torch has no translation of it to ONNX opset {target.opset}"
            made = Conversion(node=name, operator=operator, lacks=lacks, way=way, tried=tuple(tried), place=place)
            (result.rewritten if way else result.left).append(Site(name, place, made.failure, made))
        if result.changed:
            artifact.finish()
        return result


def _is_left_to_torch(node: fx.Node, opset: int) -> bool:
    """Whether the exporter's own decompositions end in operators that it translates."""
    function = decomposition(node.target)
    if function is None:
        return False
    try:
        traced, _ = trace_function(function, node.args, node.kwargs)
    except Exception:  # a decomposition may raise anything on arguments that it was not made for
        return False
    inner = [n for n in traced.graph.nodes if is_untranslated(n, opset)]
    return all(n.target is not node.target and _is_left_to_torch(n, opset) for n in inner)


class _Conversion:
    """Makes one node legal, and what comes up in its place."""

    def __init__(self, program: Program, target: Target) -> None:
        self._program, self._target = program, target
        self._outer: list[Any] = []  # the operators that are being made legal

    def convert(self, node: fx.Node) -> tuple[str, list[str]]:
        """Replace `node`; the way that worked, and those before it that failed. Where none works, `node` stands."""
        tried: list[str] = []
        if node.target in self._outer:  # this would never end
            return "", tried
        self._outer.append(node.target)
        for way, function in self._ways(node):
            failure = function if isinstance(function, str) else self._try(node, function)
            if not failure:
                break
            tried.append(f"{way} → {failure}")
        else:
            way = ""
        self._outer.pop()
        return way, tried

    def _ways(self, node: fx.Node) -> Iterator[tuple[str, Function | str]]:
        """The known ways, each with its function or the reason why it does not apply."""
        for name, cls in passes().items():
            if issubclass(cls, OperatorPass) and "unsupported-op" in cls.fixes and cls().takes(node):
                yield name, cls().replacement(self._program, node, self._target)
        function = decomposition(node.target)
        if function is not None:
            yield "torch's decomposition", function
        twin = eager_twin(node.target)
        if twin is not None:
            yield "its eager twin", twin
        if not node.all_input_nodes and node.graph is self._program.graph and not draws(node):
            value = node.target(*node.args, **node.kwargs)  # type: ignore[operator]
            yield "its value", lambda *_, **__: value

    def _try(self, node: fx.Node, function: Function) -> str:
        """Replace `node` by what `function` computes, made legal; empty, or why that cannot be done."""
        graph = node.graph
        before = set(graph.nodes)
        constants = self._program.add_constant if graph is self._program.graph else None
        try:
            made = insert_function(node, function, node.args, node.kwargs, constants=constants)
        except Exception as error:  # a decomposition may raise anything on arguments that it was not made for
            self._undo(graph, before)
            return f"it raises {type(error).__name__}"
        with graph.inserting_before(node):
            results = graph.call_function(tuple, (made,))  # its argument follows what replaces the nodes of `made`
        for inner in [n for n in graph.nodes if n not in before and is_untranslated(n, self._target.opset)]:
            operator = str(inner.target)
            if not self.convert(inner)[0]:
                self._undo(graph, before)
                return f"leaves {operator}, which has no translation either"
        made = results.args[0]
        graph.erase_node(results)
        replace_results(node, made)
        return ""

    @staticmethod
    def _undo(graph: fx.Graph, before: set[fx.Node]) -> None:
        for new in [n for n in reversed(graph.nodes) if n not in before and n.op == "call_function"]:
            graph.erase_node(new)
