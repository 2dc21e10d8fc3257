"""Walking the nodes of an ONNX graph, the graphs inside its branches and loops included."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

# Operators whose results are drawn: https://onnx.ai/onnx/operators/
DRAWS = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that the node holds: branches, the body of a loop."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_nodes(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """Each node, and after it those of the graphs that it holds."""
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from all_nodes(inner)


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """Names of the values that the node reads, those that its graphs take from outside included."""
    yield from filter(None, node.input)
    for inner in subgraphs(node):
        made = {t.name for t in (*inner.initializer, *inner.input)} | {o for n in inner.node for o in n.output}
        yield from (name for n in inner.node for name in reads(n) if name not in made)
        yield from (o.name for o in inner.output if o.name not in made)
