"""ONNX operators that the target refuses are written in operators that it takes.

    ReduceL2(x, axes)       →  Sqrt(ReduceSumSquare(x, axes))
    ReduceL1(x, axes)       →  ReduceSum(Abs(x), axes)
    Where(c, a, b) of bool  →  Or(And(c, a), And(Not(c), b))
    DFT(x) of a real x      →  MatMul(x, [cos, -sin]), the columns of frequency k from cos(2 pi j k / n), n = x's length

- Driven by the target's rulebook: a node is rewritten only if the rulebook says that it does not run, and stays if it
  says so of one of the new nodes as well. "Unknown" is no refusal.
- DFT runs forward along the last dimension of the signal, over its whole length, which is known and at most 512.
- Left alone: nodes inside branches and loops.

Where is exact; the others differ by rounding, DFT by that of n products. The matrix is computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, helper, numpy_helper

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.onnx_view import view_model
from graphaudit.graphs.view import Node, Value
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rulebook import Rulebook, Support, load_rulebook
from graphaudit.rulebook.target import Target

_LONGEST_DFT = 512  # the matrix has n² numbers


class DecomposeOnnxOperators(Pass[OnnxModel]):
    """ReduceL1, ReduceL2, Where on bool and DFT → operators that the target takes."""

    name = "decompose_onnx_operators"
    level = Level.ONNX
    fixes = ("unsupported-op", "complex")
    target_ops = frozenset({"ReduceL1", "ReduceL2", "Where", "DFT"})
    claims = Claim.EQUIVALENT

    def run(self, artifact: OnnxModel, target: Target) -> PassResult[OnnxModel]:
        """Rewrite what the rulebook refuses, if it takes what comes instead."""
        result = PassResult(artifact)
        rulebook = load_rulebook(target.name)
        for node in view_model(artifact).nodes:
            way = _WAYS.get(node.op) if not node.domain else None
            if way is None or rulebook.answer(node).support is not Support.UNSUPPORTED:
                continue
            reason = "it stands inside a branch or a loop" if node.graph else _rewrite(artifact, node, way, rulebook)
            (result.left if reason else result.rewritten).append(Site(node.name, node.place, reason))
        return result


@dataclass
class _Draft:
    """The nodes that are to stand in the place of `old`, and the constants that they read."""

    old: NodeProto
    taken: set[str]
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def add(self, operator: str, *inputs: str, result: str = "", **attributes: int) -> str:
        """Append a node; return its output, which is called after the output of the old node."""
        output = result or self._name(operator)
        name = f"{self.old.name or self.old.output[0]}_{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], name, **attributes))
        return output

    def constant(self, array: NDArray[np.generic]) -> str:
        """A new initializer; return its name."""
        name = self._name("constant")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def _name(self, hint: str) -> str:
        stem = f"{self.old.output[0]}_{hint}"
        name = next(n for i in count() if (n := f"{stem}_{i}") not in self.taken)
        self.taken.add(name)
        return name


_Way = Callable[[Node, _Draft], str]  # fills the draft; empty, or why that cannot be done


def _rewrite(model: OnnxModel, node: Node, way: _Way, rulebook: Rulebook) -> str:
    """Put what `way` drafts in the place of `node`, unless the target refuses it too; empty, or why not."""
    graph = model.proto.graph
    index = next(i for i, n in enumerate(graph.node) if n.output and n.output[0] == node.outputs[0].name)
    old = NodeProto()
    old.CopyFrom(graph.node[index])
    names = [name for n in graph.node for name in (*n.input, *n.output)]
    draft = _Draft(old, {*names, *(t.name for t in graph.initializer)})
    reason = way(node, draft)
    if reason:
        return reason
    _splice(graph, index, 1, draft.nodes)
    graph.initializer.extend(draft.constants)
    new = {n.name for n in draft.nodes}
    answers = [(n, rulebook.answer(n)) for n in view_model(model).nodes if n.name in new]
    refused = [f"{n.op}: {'; '.join(a.reasons)}" for n, a in answers if a.support is Support.UNSUPPORTED]
    if refused:
        _splice(graph, index, len(draft.nodes), [old])
        del graph.initializer[len(graph.initializer) - len(draft.constants) :]
        return f"tried {', '.join(n.op_type for n in draft.nodes)}, which does not run either ({'; '.join(refused)})"
    if node.place is not None:
        model.places.update((name, node.place) for n in draft.nodes for name in n.output)
    return ""


def _splice(graph: onnx.GraphProto, index: int, length: int, new: list[NodeProto]) -> None:
    nodes = [*graph.node[:index], *new, *graph.node[index + length :]]
    copies = []
    for node in nodes:
        copies.append(NodeProto())
        copies[-1].CopyFrom(node)
    graph.ClearField("node")
    graph.node.extend(copies)


def _norm2(node: Node, draft: _Draft) -> str:  # noqa: ARG001
    squares = draft.add("ReduceSumSquare", *draft.old.input)
    draft.nodes[-1].attribute.extend(draft.old.attribute)
    draft.add("Sqrt", squares, result=draft.old.output[0])
    return ""


def _norm1(node: Node, draft: _Draft) -> str:
    magnitudes = draft.add("Abs", draft.old.input[0])
    axes = list(draft.old.input[1:])
    if node.attributes.get("axes") is not None:  # an attribute up to opset 17; ReduceSum has an input since 13
        axes = [draft.constant(np.array(node.attributes["axes"], np.int64))]
    draft.add("ReduceSum", magnitudes, *axes, result=draft.old.output[0])
    draft.nodes[-1].attribute.extend(a for a in draft.old.attribute if a.name != "axes")
    return ""


def _select(node: Node, draft: _Draft) -> str:
    if node.outputs[0].dtype != "bool":
        return f"it selects {node.outputs[0].dtype}, not bool"
    condition, first, second = draft.old.input
    taken = draft.add("And", condition, first)
    other = draft.add("And", draft.add("Not", condition), second)
    draft.add("Or", taken, other, result=draft.old.output[0])
    return ""


def _transform(node: Node, draft: _Draft) -> str:
    source = node.inputs[0]
    assert source is not None
    if source.shape is None or source.dtype is None:
        return "the shape of the signal is unknown"
    rank, length = len(source.shape), source.shape[-2]
    axis = _axis(node)
    if node.attributes.get("inverse"):
        return "it runs backwards"
    if source.shape[-1] != 1:
        return "the signal is complex"
    if axis is None or axis % rank != rank - 2:
        return "it does not run along the last dimension of the signal"
    if not isinstance(length, int) or length > _LONGEST_DFT:
        return f"the length of the signal is {length}; written out are those up to {_LONGEST_DFT}"
    asked = _number(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] is not None else length
    if asked != length:
        return "the signal is padded or cut to another length"
    frequencies = length // 2 + 1 if node.attributes.get("onesided") else length
    matrix = draft.constant(_fourier_matrix(length, frequencies).astype(source.dtype))
    signal = draft.add("Squeeze", draft.old.input[0], draft.constant(np.array([-1], np.int64)))
    flat = draft.add("MatMul", signal, matrix)
    shape = draft.constant(np.array([*(0,) * (rank - 2), frequencies, 2], np.int64))  # 0: as in `flat`
    draft.add("Reshape", flat, shape, result=draft.old.output[0])
    return ""


def _fourier_matrix(length: int, frequencies: int) -> NDArray[np.float64]:
    """(length, frequencies * 2): real and imaginary part of exp(-2 pi i j k / length), side by side."""
    turns = np.outer(np.arange(length), np.arange(frequencies)) % length / length
    return np.stack([np.cos(2 * np.pi * turns), -np.sin(2 * np.pi * turns)], -1).reshape(length, -1)


def _axis(node: Node) -> int | None:
    """An attribute up to opset 19, an input afterwards."""
    if (node.opset or 0) < 20:
        return int(node.attributes.get("axis", 1))
    return _number(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else -2


def _number(value: Value | None) -> int | None:
    array = value.array if value is not None else None
    return int(array.item()) if array is not None and array.size == 1 else None


_WAYS: dict[str, _Way] = {"ReduceL2": _norm2, "ReduceL1": _norm1, "Where": _select, "DFT": _transform}
