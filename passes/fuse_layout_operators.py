"""A chain of operators that leaves a tensor's elements in their order becomes one Reshape, or nothing.

    Before  Unsqueeze(Slice(Reshape(x)))    Transpose(x) of dimensions (1, n)    Squeeze(Unsqueeze(x))
    After   Reshape(x)                      Reshape(x)                           x

- The operators are Reshape, Transpose, Squeeze, Unsqueeze and Flatten; Slice and Expand where they leave the shape as
  it is; Gather of the only entry of a dimension. The chain begins and ends in the same order of elements.
- All shapes are known, or one dimension has a name and no reshape mixes it with others.
- Rewritten where the Reshape costs less than the operators that nobody else reads; a transpose, which copies, counts
  double.
- Left alone: chains that change the order of elements. Runtimes have optimisers of their own for transposes (ONNX
  Runtime moves them into matrix products), and they recognise the forms that exporters write.

ONNX Runtime, like others, pays for each node whatever it does; in a policy of small layers that is most of the time.
Exact: no element changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from math import prod

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from graphaudit.graphs.layouts import Reshape, Shape, Transpose, keeps_order
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.onnx_nodes import reads, subgraphs
from graphaudit.graphs.onnx_view import infer_types
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rulebook.target import Target

_RESHAPES = {"Reshape", "Squeeze", "Unsqueeze", "Flatten"}


class FuseLayoutOperators(Pass[OnnxModel]):
    """Reshape, Squeeze, Unsqueeze, Transpose, … → one Reshape."""

    name = "fuse_layout_operators"
    level = Level.ONNX
    target_ops = frozenset({*_RESHAPES, "Transpose", "Slice", "Expand", "Gather"})
    runs_after = ("simplify_onnx",)

    def run(self, artifact: OnnxModel, target: Target) -> PassResult[OnnxModel]:
        """Rewrite the chains of the main graph in place, from the outputs up."""
        result = PassResult(artifact)
        editor = _Editor(artifact)
        for end in reversed(list(editor.nodes)):
            if not any(node is end for node in editor.nodes):
                continue  # a chain that ends below has dropped it
            chain = editor.best_chain(end)
            if chain is not None:
                result.rewritten.extend(Site(n.name or n.output[0], artifact.place(n)) for n in chain.dropped)
                editor.replace(chain)
            elif editor.step(end) is not None and end.op_type == "Transpose":
                reason = "no cheaper operators do what it does"
                result.left.append(Site(end.name or end.output[0], artifact.place(end), reason))
        if result.rewritten:
            editor.finish()
        return result


@dataclass
class _Chain:
    """From the value `source` on; `dropped` are its last nodes, the end first, that nobody outside reads."""

    source: str
    dropped: list[NodeProto]


class _Editor:
    """The nodes of the main graph, with what is known of the values between them."""

    def __init__(self, model: OnnxModel) -> None:
        graph = model.proto.graph
        self.model, self.nodes = model, list(graph.node)
        inferred = infer_types(model.proto)
        known = (*inferred.input, *inferred.value_info, *inferred.output)
        self.shapes = {v.name: shape for v in known if (shape := _shape(v)) is not None}
        self.shapes |= {t.name: tuple(t.dims) for t in graph.initializer}
        self.constants = {t.name: t for t in graph.initializer}
        self.results = {o.name for o in graph.output}
        self.producers = {name: node for node in graph.node for name in node.output}
        self.taken = {*self.shapes, *self.producers, *(i.name for i in graph.input)}
        self._count()

    def _count(self) -> None:
        self.uses = Counter(name for node in self.nodes for name in reads(node))
        self.uses.update(self.results)

    def best_chain(self, end: NodeProto) -> _Chain | None:
        """The chain to `end` that saves most, if one saves anything."""
        best, most = None, 0
        for chain in self._chains(end):
            same = self.shapes[chain.source] == self.shapes[end.output[0]]
            if same and end.output[0] in self.results:
                continue  # an output needs a producer of its own
            saved = sum(2 if n.op_type == "Transpose" else 1 for n in chain.dropped) - (0 if same else 1)
            if saved > most:
                best, most = chain, saved
        return best

    def _chains(self, end: NodeProto) -> Iterator[_Chain]:
        """Those to `end` that keep the order of elements, the shortest first."""
        steps: list[Reshape | Transpose] = []
        dropped: list[NodeProto] = []
        node: NodeProto | None = end
        private = True  # whether all that reads the node is dropped
        while node is not None and (step := self.step(node)) is not None:
            private = private and (node is end or self.uses[node.output[0]] == 1)
            if private:
                dropped.append(node)
            steps.insert(0, step)
            if keeps_order(self.shapes[node.input[0]], steps):
                yield _Chain(node.input[0], list(dropped))
            node = self.producers.get(node.input[0])

    def step(self, node: NodeProto) -> Reshape | Transpose | None:
        """What a node does, if it only arranges elements and its shapes are known."""
        if node.domain not in ("", "ai.onnx") or not node.input or not node.output:
            return None
        before, after = self.shapes.get(node.input[0]), self.shapes.get(node.output[0])
        if before is None or after is None or len({s for s in (*before, *after) if isinstance(s, str)}) > 1:
            return None
        if node.op_type == "Transpose":
            order = next((a.ints for a in node.attribute if a.name == "perm"), range(len(before))[::-1])
            return Transpose(tuple(order))
        arranges = (
            node.op_type in _RESHAPES
            or (node.op_type == "Expand" and before == after)
            or (node.op_type == "Slice" and before == after and self._runs_forward(node))
            or (node.op_type == "Gather" and self._takes_all(node, before))
        )
        return Reshape(after) if arranges else None

    def _runs_forward(self, node: NodeProto) -> bool:
        """Whether a Slice has no steps, or steps of 1."""
        if len(node.input) < 5 or not node.input[4]:
            return True
        steps = self.constants.get(node.input[4])
        return steps is not None and bool((numpy_helper.to_array(steps) == 1).all())

    def _takes_all(self, node: NodeProto, shape: Shape) -> bool:
        """Whether a Gather takes the one entry that a dimension has, once."""
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        index = self.constants.get(node.input[1])
        return shape[axis] == 1 and index is not None and prod(index.dims) == 1

    def replace(self, chain: _Chain) -> None:
        """Put a Reshape, or nothing, where the chain ended."""
        end, output = chain.dropped[0], chain.dropped[0].output[0]
        made = []
        if self.shapes[chain.source] == self.shapes[output]:
            for node in self.nodes:
                _rename(node, output, chain.source)
        else:
            made = [helper.make_node("Reshape", [chain.source, self._sizes(output)], [output], end.name or output)]
            self.producers[output] = made[0]
        at = next(i for i, node in enumerate(self.nodes) if node is end)
        self.nodes[at : at + 1] = made
        gone = {id(node) for node in chain.dropped}
        self.nodes = [node for node in self.nodes if id(node) not in gone]
        self._count()

    def _sizes(self, output: str) -> str:
        """The name of a constant with the shape of `output`."""
        sizes = np.array([size if isinstance(size, int) else -1 for size in self.shapes[output]], np.int64)
        name = next(n for i in count() if (n := f"{output}_shape_{i}") not in self.taken)
        self.taken.add(name)
        self.constants[name] = numpy_helper.from_array(sizes, name)
        return name

    def finish(self) -> None:
        """Write the nodes back, with the constants that they read."""
        graph = self.model.proto.graph
        read = {name for node in self.nodes for name in reads(node)} | self.results
        made = {name for node in self.nodes for name in node.output}
        kept = (
            ("node", self.nodes),
            ("initializer", [tensor for name, tensor in self.constants.items() if name in read]),
            ("value_info", [info for info in graph.value_info if info.name in made]),
        )
        for field, values in kept:
            copies = [type(value).FromString(value.SerializeToString()) for value in values]
            graph.ClearField(field)
            getattr(graph, field).extend(copies)


def _shape(info: onnx.ValueInfoProto) -> Shape | None:
    """The shape, if the rank and every size or name is known."""
    tensor = info.type.tensor_type
    if not info.type.HasField("tensor_type") or not tensor.HasField("shape"):
        return None
    sizes = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim]
    return None if "" in sizes else tuple(sizes)


def _rename(node: NodeProto, old: str, new: str) -> None:
    """Let a node, and what stands in its branches and loops, read `new` where it read `old`."""
    for index, name in enumerate(node.input):
        if name == old:
            node.input[index] = new
    for graph in subgraphs(node):
        for inner in graph.node:
            _rename(inner, old, new)
