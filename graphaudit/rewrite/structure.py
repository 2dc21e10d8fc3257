"""Is the graph that a pass returned well formed? Asked before any number is compared."""

from __future__ import annotations

import onnx
from torch import fx

from graphaudit.graphs.fx_view import operator_name
from graphaudit.graphs.onnx_files import WEIGHTS_LIMIT, weight_bytes
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.onnx_nodes import all_nodes
from graphaudit.graphs.program import Program

_PROVENANCE = ("stack_trace", "from_node", "nn_module_stack")


def has_any(artifact: Program | OnnxModel, ops: frozenset[str]) -> bool:
    """Whether the graph or one of its subgraphs calls one of `ops` (`aten.exp` stands for all of its overloads)."""
    present = _fx_ops(artifact) if isinstance(artifact, Program) else _onnx_ops(artifact.proto)
    return any(op in ops or op.rpartition(".")[0] in ops for op in present)


def find_malformation(before: Program | OnnxModel, after: Program | OnnxModel) -> str | None:
    """One sentence on what is wrong with `after`, or None. Raises what `graph.lint` and `onnx.checker` raise."""
    if isinstance(before, Program) and isinstance(after, Program):
        return _fx_malformation(before, after)
    if isinstance(before, OnnxModel) and isinstance(after, OnnxModel):
        return _onnx_malformation(before, after)
    return f"a {type(before).__name__} became a {type(after).__name__}"


def _fx_malformation(before: Program, after: Program) -> str | None:
    after.graph.lint()
    known = {n.name for n in before.calls()}
    traced = any(_is_traced(n) for n in before.calls())
    for node in after.calls():
        if node.name in known:
            continue
        if traced and not _is_traced(node):
            return f"the new node {node.name} does not say which source line it stands for"
        if "val" not in node.meta:
            return f"the new node {node.name} has no dtype and shape (meta['val'])"
    state = {part.path for part in before.interface.state}  # may become an output
    signatures = [
        [(s.kind, s.target) for s in p.exported.graph_signature.output_specs if s.target and s.target not in state]
        for p in (before, after)
    ]
    if signatures[0] != signatures[1]:
        return "the buffers that the graph writes to are not the same as before"
    return None


def _onnx_malformation(before: OnnxModel, after: OnnxModel) -> str | None:
    if weight_bytes(after.proto) <= WEIGHTS_LIMIT:  # the checker serialises the model, which protobuf refuses above
        onnx.checker.check_model(after.proto)  # names that nothing gives, in branches and loops too, among much else
    for kind in ("input", "output"):
        names = [[v.name for v in getattr(model.proto.graph, kind)] for model in (before, after)]
        if names[0] != names[1]:
            return f"the {kind}s were {', '.join(names[0])} and became {', '.join(names[1]) or 'none'}"
    untraced = {name for n in all_nodes(before.proto.graph) if before.place(n) is None for name in n.output}
    for node in all_nodes(after.proto.graph) if before.places else ():
        if after.place(node) is None and untraced.isdisjoint(node.output):
            return f"the node {node.name or node.output[0]} does not say which source line it stands for"
    return None


def _is_traced(node: fx.Node) -> bool:
    return any(node.meta.get(key) for key in _PROVENANCE)


def _fx_ops(program: Program) -> set[str]:
    return {operator_name(n.target)[0] for n in program.calls()}


def _onnx_ops(proto: onnx.ModelProto) -> set[str]:
    return {node.op_type for part in (proto.graph, *proto.functions) for node in all_nodes(part)}
