"""Letting a pass see only some of the nodes that it would rewrite.

A node that is hidden keeps its operands and its readers, but its operator has a name that no pass knows. So any pass,
also one of a third party, can be kept from a node without its help; afterwards the operator gets its name back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import onnx
from torch import fx

from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import Artifact, Pass, PassResult
from graphaudit.rulebook.target import Target

_HIDDEN = "graphaudit.hidden"


def calls(artifact: Program | OnnxModel) -> list[str]:
    """The names of all nodes that can be hidden, in the order of the graph."""
    if isinstance(artifact, Program):
        return [n.name for n in artifact.calls()]
    return [_onnx_name(n) for n in artifact.proto.graph.node]


def run_without(
    step: Pass[Artifact], artifact: Artifact, target: Target, hidden: Collection[str]
) -> PassResult[Artifact]:
    """Run a pass on a copy of `artifact` in which the nodes named `hidden` cannot be recognised."""
    copied = artifact.copy()
    _hide(copied, frozenset(hidden))
    result = step.run(copied, target)
    _reveal(result.artifact)
    return result


def _hide(artifact: Program | OnnxModel, names: frozenset[str]) -> None:
    if isinstance(artifact, Program):
        for node in artifact.calls():
            if node.name in names:
                node.target = _hidden_function(node.target)
        return
    for proto in artifact.proto.graph.node:
        if _onnx_name(proto) in names:
            proto.domain, proto.op_type = f"{_HIDDEN}.{proto.domain}", f"Hidden{proto.op_type}"
    domains = {n.domain for n in artifact.proto.graph.node if n.domain.startswith(_HIDDEN)}
    artifact.proto.opset_import.extend(onnx.helper.make_opsetid(domain, 1) for domain in sorted(domains))


def _reveal(artifact: Program | OnnxModel) -> None:
    if isinstance(artifact, Program):
        for node in artifact.calls():
            node.target = getattr(node.target, "hides", node.target)
        for module in artifact.exported.graph_module.modules():
            if isinstance(module, fx.GraphModule):
                module.recompile()
        return
    for proto in artifact.proto.graph.node:
        if proto.domain.startswith(_HIDDEN):
            proto.domain = proto.domain.removeprefix(f"{_HIDDEN}.")
            proto.op_type = proto.op_type.removeprefix("Hidden")
    kept = [i for i in artifact.proto.opset_import if not i.domain.startswith(_HIDDEN)]
    artifact.proto.ClearField("opset_import")
    artifact.proto.opset_import.extend(kept)


@cache
def _hidden_function(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    call.hides = function  # type: ignore[attr-defined]
    return call


def _onnx_name(node: onnx.NodeProto) -> str:
    return node.name or (node.output[0] if node.output else "")
