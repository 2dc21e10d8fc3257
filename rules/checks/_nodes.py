"""What the target's rulebook says of every node of the ONNX model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.graphs.view import GraphView, Node
    from graphaudit.rulebook import Answer, Support


def view(subject: Subject) -> GraphView | None:
    """The ONNX model as a runtime sees it: local functions are replaced by their bodies, so that dtypes are known."""
    if subject.onnx is None or subject.model is None or not subject.onnx.functions:
        return subject.onnx
    from onnx.inliner import inline_local_functions

    from graphaudit.graphs.onnx_model import OnnxModel
    from graphaudit.graphs.onnx_view import view_model

    return view_model(OnnxModel(inline_local_functions(subject.model.proto), subject.model.places))


def judged(subject: Subject, *answers: Support) -> Iterator[tuple[Node, Answer]]:
    """The nodes for which the rulebook gives one of `answers`; none where there is no model or no target.

    Standard nodes of a model beyond the target's last opset are left out: `opset-too-new` speaks of the whole model.
    """
    graph = view(subject)
    if graph is None or subject.rulebook is None:
        return
    too_new = (graph.opset or 0) > subject.rulebook.target.max_opset
    for node in graph.nodes:
        if too_new and not node.domain:
            continue
        answer = subject.rulebook.answer(node)
        if answer.support in answers:
            yield node, answer


def spelled(node: Node) -> str:
    """`Where at opset 18`, `npu::NPUGru at opset 1`."""
    name = f"{node.domain}::{node.op}" if node.domain else node.op
    return f"{name} at opset {node.opset}" if node.opset is not None else name
