"""What becomes of one kind of ATen operator on the target: the base of the findings that are named after operators."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from graphaudit.audit.check import Check
from graphaudit.findings import Evidence, Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.graphs.view import GraphView, Node
    from graphaudit.rulebook import Rulebook


class OperatorCheck(Check, ABC):
    """Reports the nodes of the captured graph that call one of `operators`, and what the exported model has for them.

    Subclasses override `applies` where only some calls matter, or `candidates` where it is not the operator that does.
    """

    severity = Severity.NOTE

    operators: ClassVar[tuple[str, ...]] = ()  # `aten.cumsum` means all its overloads
    becomes: ClassVar[tuple[str, ...]] = ()  # the ONNX operators that tell its fate, looked for at the same line
    effect: ClassVar[str]  # what there is to know on any target, as a clause

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every call that applies."""
        if subject.fx is None:
            return
        for node in self.candidates(subject.fx):
            if self.applies(node):
                fate, evidence = self._fate(node, subject.onnx, subject.rulebook)
                name = operator_of(node)
                prefix = "" if name.replace("_", "-") == self.name else f"{name}: "
                message = f"{prefix}{self.effect_on(node)}{fate}"
                severity = self.severity_of(node)
                yield self.finding(message, place=node.place, node=node.name, severity=severity, evidence=evidence)

    def candidates(self, graph: GraphView) -> Iterator[Node]:
        """The nodes to look at."""
        yield from graph.select(*self.operators)

    def applies(self, node: Node) -> bool:  # noqa: ARG002
        """Whether this call is one to report."""
        return True

    def effect_on(self, node: Node) -> str:  # noqa: ARG002
        """What there is to know of this call, as a clause."""
        return self.effect

    def severity_of(self, node: Node) -> Severity:  # noqa: ARG002
        """How much this call matters."""
        return self.severity

    def _fate(self, node: Node, onnx: GraphView | None, rulebook: Rulebook | None) -> tuple[str, Evidence | None]:
        """What the target makes of the ONNX nodes at the line, as a clause to append."""
        if onnx is None or rulebook is None or node.place is None:
            return "", None
        line = (node.place.file, node.place.line)
        found = [n for n in onnx.nodes if n.op in self.becomes and n.place and (n.place.file, n.place.line) == line]
        if not found:
            return "", None
        answers = [rulebook.answer(n) for n in found]
        reasons = list(dict.fromkeys(reason for answer in answers for reason in answer.reasons))
        names = ", ".join(dict.fromkeys(n.op for n in found))
        verdict = f" ({'; '.join(reasons)})" if reasons else ", which it takes"
        worst = next((a for a in answers if a.reasons), answers[0])
        return f"; on {rulebook.target.name} it becomes {names}{verdict}", worst.evidence


def operator_of(node: Node) -> str:
    """`aten.cumsum.default` → `cumsum`."""
    return node.op.split(".")[1].strip("_") if node.op.count(".") else node.op


def dtypes(node: Node) -> set[str | None]:
    """The dtypes of a node's inputs."""
    return {v.dtype for v in node.inputs if v is not None}


def is_integer(dtype: str | None) -> bool:
    """Whether a dtype is an integer one (bool is not)."""
    return dtype is not None and "int" in dtype
