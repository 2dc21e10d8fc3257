"""What the target's rulebook says of every node of the graph that it judges, and nodes whose size is data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.graphs.view import Node
    from graphaudit.rulebook import Answer, Support


def judged(subject: Subject, *answers: Support) -> Iterator[tuple[Node, Answer]]:
    """The nodes for which the rulebook gives one of `answers`; none where there is no graph or no target.

    Standard nodes of a model beyond the target's last opset are left out: `opset-too-new` speaks of the whole model.
    """
    graph = subject.judged
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
    """`Where at opset 18`, `npu::NPUGru at opset 1`, `aten.cumsum.default`."""
    name = f"{node.domain}::{node.op}" if node.domain and "." not in node.op else node.op
    return f"{name} at opset {node.opset}" if node.opset is not None else name


def takes_size_from_data(node: Node) -> bool:
    """Whether a value decides the size of what the node gives, and that of none of its inputs."""
    return any(v.is_data_sized for v in node.outputs) and not any(
        v is not None and v.is_data_sized for v in node.inputs
    )
