"""A node of an ONNX model that the target refuses is rewritten, by the first way after which the target takes it.

The target's rulebook decides, as a conversion target does in MLIR: a way holds if the rulebook refuses none of the
nodes that it leaves, or if those can be made legal by the same ways. Otherwise the model is put back, and the next way
is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, helper, numpy_helper

from graphaudit.equivalence.verdict import Conversion
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.onnx_view import view_model
from graphaudit.graphs.program import Program
from graphaudit.graphs.view import Node
from graphaudit.rewrite.base import LACKS
from graphaudit.rulebook import Support
from graphaudit.rulebook.target import Answer


@dataclass
class Draft:
    """The nodes that are to stand in the place of `old`, and the constants that they read."""

    old: NodeProto
    taken: set[str]
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def add(self, operator: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        """Append a node; return its output, which is called after the output of the old node."""
        output = result or self.name(operator)
        name = f"{self.old.name or self.old.output[0]}_{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], name, **attributes))
        return output

    def constant(self, array: NDArray[np.generic]) -> str:
        """A new initializer; return its name."""
        name = self.name("constant")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def name(self, hint: str) -> str:
        """A name that no value has, after the output of the old node."""
        stem = f"{self.old.output[0]}_{hint}"
        name = next(n for i in count() if (n := f"{stem}_{i}") not in self.taken)
        self.taken.add(name)
        return name


class Judge(Protocol):
    """Who says whether a node is taken."""

    def answer(self, node: Node) -> Answer: ...


@dataclass(frozen=True)
class Judges:
    """Several that have to take a node."""

    judges: tuple[Judge, ...]

    def answer(self, node: Node) -> Answer:
        """The first refusal, or else the first answer."""
        answers = [judge.answer(node) for judge in self.judges]
        return next((a for a in answers if a.support is Support.UNSUPPORTED), answers[0])


@dataclass(frozen=True)
class Way:
    """One way to make a node legal: `write` fills the draft; it returns nothing, or why that cannot be done.

    `computes_in` is the dtype of a way that loses digits.
    """

    name: str
    write: Callable[[Node, Draft, Judge], str]
    computes_in: str = ""


Ways = Callable[[Node], Iterable[Way]]


def convert(model: OnnxModel, node: Node, ways: Ways, judge: Judge) -> Conversion:
    """Rewrite `node`, which the target refuses, in place; without a way that holds, the model stays as it is."""
    way, tried = _convert(model, node, ways, judge, ())
    lacks = "; ".join(judge.answer(node).reasons)
    return Conversion(node=node.name, operator=node.op, lacks=lacks, way=way, tried=tuple(tried), place=node.place)


def _convert(model: OnnxModel, node: Node, ways: Ways, judge: Judge, outer: tuple[str, ...]) -> tuple[str, list[str]]:
    tried: list[str] = []
    for way in ways(node):
        failure = _try(model, node, way, ways, judge, (*outer, node.op))
        if not failure:
            return way.name, tried
        tried.append(f"{way.name} → {failure}")
    return "", tried


def _try(model: OnnxModel, node: Node, way: Way, ways: Ways, judge: Judge, outer: tuple[str, ...]) -> str:
    """Put what `way` drafts in the place of `node`, made legal; empty, or why that cannot be done."""
    graph = model.proto.graph
    index = next(i for i, n in enumerate(graph.node) if n.output and n.output[0] == node.outputs[0].name)
    names = [name for n in graph.node for name in (*n.input, *n.output)]
    before, computed = onnx.GraphProto(), model.computes_in
    before.CopyFrom(graph)
    draft = Draft(before.node[index], {*names, *(t.name for t in graph.initializer)})
    reason = way.write(node, draft, judge)
    if reason:
        return reason
    _splice(graph, index, draft.nodes)
    graph.initializer.extend(draft.constants)
    model.computes_in = way.computes_in or computed
    if node.place is not None:
        model.places.update((name, node.place) for n in draft.nodes for name in n.output)
    new = {n.name for n in draft.nodes}
    for inner, answer in _refused(model, new, judge):
        if inner.op not in outer and _convert(model, inner, ways, judge, outer)[0]:
            continue
        graph.CopyFrom(before)
        model.computes_in = computed
        return f"leaves {inner.op}, which does not run either ({'; '.join(answer.reasons)})"
    return ""


def _refused(model: OnnxModel, names: set[str], judge: Judge) -> Iterator[tuple[Node, Answer]]:
    for node in view_model(model).nodes:
        if node.name in names:
            answer = judge.answer(node)
            if answer.support is Support.UNSUPPORTED:
                yield node, answer


def _splice(graph: onnx.GraphProto, index: int, new: list[NodeProto]) -> None:
    nodes = []
    for node in (*graph.node[:index], *new, *graph.node[index + 1 :]):
        nodes.append(NodeProto())
        nodes[-1].CopyFrom(node)
    graph.ClearField("node")
    graph.node.extend(nodes)


def untaken(model: OnnxModel, conversions: Iterable[Conversion]) -> dict[str, str]:
    """The nodes of the program from which nodes were translated that no way makes legal, each with what it lacks."""
    outputs = {node.name: node.output[0] for node in model.proto.graph.node if node.output}
    found = {
        model.origins.get(outputs.get(c.node, ""), ""): f"{c.operator}: {c.lacks}" for c in conversions if not c.way
    }
    found.pop("", None)
    return found


def marked(program: Program, lacking: Mapping[str, str]) -> Program:
    """A copy in which the nodes named in `lacking` say what the target lacks of their translations."""
    copied = program.copy()
    for node in copied.calls():
        if node.name in lacking:
            node.meta[LACKS] = lacking[node.name]
    return copied
