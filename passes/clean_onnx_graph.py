"""Remove what no output needs from an ONNX graph.

    Before  y = Identity(x); z = Relu(y)      dead = Exp(x)      initializer that nothing reads
    After   z = Relu(x)

- An `Identity` goes where its consumers can read its input instead. One that is an output of the graph goes where its
  input is computed in the same graph and is no output itself; it stays where the graph returns an input, a constant or
  the same tensor twice, because an output needs a producer of its own.
- Nodes and initializers that contribute to no output go. Inputs stay, used or not: they are the interface.
- Opset imports of domains that no node uses go.
- Nodes are put in topological order if they are not.

Names, order, types and shapes of inputs and outputs stay exactly as they are. Works through onnx-graphsurgeon.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx_graphsurgeon as gs

from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.onnx_nodes import all_nodes
from graphaudit.quiet import quiet
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rulebook.target import Target


class CleanOnnxGraph(Pass[OnnxModel]):
    """Identities, dead nodes, unused initializers and unused imports go."""

    name = "clean_onnx_graph"
    level = Level.ONNX

    def run(self, artifact: OnnxModel, target: Target) -> PassResult[OnnxModel]:
        """Clean `artifact` in place."""
        with quiet():
            graph = gs.import_onnx(artifact.proto)
            removed, left, renamed = _remove_identities(graph, artifact)
            graph.cleanup()
            ordered = _is_ordered(graph)
            if not ordered:
                graph.toposort()
            cleaned = gs.export_onnx(graph, do_type_check=False).graph
        _keep_overloads(artifact.proto.graph, cleaned, renamed)
        rewritten = [*removed, *_dropped(artifact, cleaned, renamed), *_drop_imports(artifact)]
        if not ordered:
            rewritten.append(Site(cleaned.name, reason="nodes were not in topological order"))
        if rewritten:
            _replace_graph(artifact.proto.graph, cleaned)
            for old, new in renamed.items():
                if old in artifact.places:
                    artifact.places[new] = artifact.places.pop(old)
        return PassResult(artifact, rewritten, left)


def _remove_identities(graph: gs.Graph, model: OnnxModel) -> tuple[list[Site], list[Site], dict[str, str]]:
    """Sites removed, sites left with reasons, and the values that took over the name of an output."""
    removed: list[Site] = []
    left: list[Site] = []
    renamed: dict[str, str] = {}
    graphs = [graph, *graph.subgraphs(recursive=True)]
    inner_outputs = {t.name for g in graphs[1:] for t in g.outputs}
    for part in graphs:
        for node in [n for n in part.nodes if n.op == "Identity" and not n.domain]:
            source, result = node.inputs[0], node.outputs[0]
            place = model.places.get(result.name)
            reason = _why_kept(part, source, result, inner_outputs)
            if reason:
                left.append(Site(node.name or result.name, place, reason))
                continue
            if _contains(part.outputs, result):
                renamed[source.name] = result.name
                _move_consumers(source, result, but=node)
                producer = source.inputs[0]
                producer.outputs = [result if o is source else o for o in producer.outputs]
                node.outputs.clear()
            else:
                _move_consumers(result, source)
            removed.append(Site(node.name or result.name, place))
    return removed, left, renamed


def _why_kept(graph: gs.Graph, source: gs.Tensor, result: gs.Tensor, inner_outputs: set[str]) -> str:
    if not _contains(graph.outputs, result):
        return "a subgraph returns it" if result.name in inner_outputs else ""
    if isinstance(source, gs.Constant):
        return f"output {result.name} is a constant"
    if _contains(graph.inputs, source):
        return f"output {result.name} is the input {source.name}"
    if _contains(graph.outputs, source):
        return f"output {result.name} is the same tensor as output {source.name}"
    if not source.inputs or not any(n is source.inputs[0] for n in graph.nodes):
        return f"output {result.name} is computed outside the subgraph"
    return "a subgraph returns its input" if source.name in inner_outputs else ""


def _contains(tensors: list[gs.Tensor], tensor: gs.Tensor) -> bool:
    return any(t is tensor for t in tensors)


def _move_consumers(old: gs.Tensor, new: gs.Tensor, but: gs.Node | None = None) -> None:
    """Let every consumer of `old`, in subgraphs too, read `new`."""
    for consumer in list(old.outputs):
        if consumer is not but:
            for index, tensor in enumerate(consumer.inputs):
                if tensor is old:
                    consumer.inputs[index] = new


def _is_ordered(graph: gs.Graph) -> bool:
    """Whether every node of every graph stands after the nodes of its graph that it reads, subgraphs included."""
    for part in (graph, *graph.subgraphs(recursive=True)):
        position = {id(node): index for index, node in enumerate(part.nodes)}
        for index, node in enumerate(part.nodes):
            for tensor in _reads(node):
                if any(position.get(id(producer), -1) >= index for producer in tensor.inputs):
                    return False
    return True


def _reads(node: gs.Node) -> Iterator[gs.Tensor]:
    yield from node.inputs
    for value in node.attrs.values():
        if isinstance(value, gs.Graph):
            for inner in value.nodes:
                yield from _reads(inner)


def _dropped(model: OnnxModel, cleaned: onnx.GraphProto, renamed: dict[str, str]) -> list[Site]:
    """Dead nodes and unread initializers of the main graph and its subgraphs; Identities are accounted for already."""
    computed = {name for node in all_nodes(cleaned) for name in node.output}
    sites = [
        Site(node.name or node.output[0], model.place(node), "contributes to no output")
        for node in all_nodes(model.proto.graph)
        if node.op_type != "Identity" and computed.isdisjoint(renamed.get(name, name) for name in node.output)
    ]
    kept = {t.name for t in cleaned.initializer}
    unread = [t.name for t in model.proto.graph.initializer if t.name not in kept]
    return sites + [Site(name, reason="initializer that nothing reads") for name in unread]


def _keep_overloads(before: onnx.GraphProto, cleaned: onnx.GraphProto, renamed: dict[str, str]) -> None:
    """Which of several functions of one name a node calls; onnx-graphsurgeon 0.6 forgets it."""
    called = {renamed.get(name, name): n.overload for n in all_nodes(before) if n.overload for name in n.output}
    for node in all_nodes(cleaned):
        node.overload = next((called[name] for name in node.output if name in called), "")


def _drop_imports(model: OnnxModel) -> list[Site]:
    proto = model.proto
    used = {n.domain for n in all_nodes(proto.graph)} | {n.domain for f in proto.functions for n in f.node}
    unused = [i for i in proto.opset_import if i.domain not in ("", "ai.onnx") and i.domain not in used]
    for opset in unused:
        proto.opset_import.remove(opset)
    return [Site(opset.domain, reason="imported domain that no node uses") for opset in unused]


def _replace_graph(graph: onnx.GraphProto, cleaned: onnx.GraphProto) -> None:
    """Take nodes, initializers and value types from `cleaned`; inputs, outputs and everything else stay."""
    for field in ("node", "initializer", "sparse_initializer", "value_info"):
        graph.ClearField(field)
        getattr(graph, field).extend(getattr(cleaned, field))
