"""Answers from the schemas of the installed onnx package: what the standard itself says of a node."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from graphaudit.findings import Evidence
from graphaudit.rulebook.signature import Signature, signature_of
from graphaudit.rulebook.target import Answer, Support

if TYPE_CHECKING:
    from graphaudit.graphs.view import Node
    from graphaudit.rulebook.table import TableRules


class Signatures:
    """All versions of all operators of a schema registry."""

    def __init__(self, schemas: Iterable[Any]) -> None:
        self._schemas: dict[tuple[str, str], list[tuple[int, Any]]] = {}
        for schema in schemas:
            self._schemas.setdefault((schema.domain, schema.name), []).append((schema.since_version, schema))
        for versions in self._schemas.values():
            versions.sort(key=lambda v: v[0])
        self.domains = frozenset(domain for domain, _ in self._schemas)
        self._found: dict[tuple[str, str, int], Signature | None] = {}

    def find(self, domain: str, op: str, opset: int) -> Signature | None:
        """The version of the operator that a model of that opset means."""
        key = (domain, op, opset)
        if key not in self._found:
            versions = self._schemas.get((domain, op), [])
            index = bisect.bisect_right([since for since, _ in versions], opset)
            self._found[key] = signature_of(versions[index - 1][1]) if index else None
        return self._found[key]

    def introduced(self, domain: str, op: str) -> int | None:
        """The opset that brought the operator; None if there is no such operator."""
        versions = self._schemas.get((domain, op))
        return versions[0][0] if versions else None

    def operators(self, domain: str = "") -> list[str]:
        """The operators of a domain that are not deprecated, by name."""
        newest = {op: versions[-1][1] for (where, op), versions in self._schemas.items() if where == domain}
        return sorted(op for op, schema in newest.items() if not schema.deprecated)

    def newest(self, domain: str = "") -> int:
        """The highest opset at which an operator of the domain changed."""
        return max((v[-1][0] for (d, _), v in self._schemas.items() if d == domain), default=0)

    def refusal(self, node: Node) -> tuple[Support, str] | None:
        """Why the node is not valid, or cannot be judged; None if it is valid."""
        if node.opset is None:
            return Support.UNSUPPORTED, f"the model imports no opset of the domain {node.domain or 'ai.onnx'}"
        signature = self.find(node.domain, node.op, node.opset)
        if signature is not None:
            reason = signature.misfit(node)
            return (Support.UNSUPPORTED, reason) if reason else None
        introduced = self.introduced(node.domain, node.op)
        if introduced is not None:
            return Support.UNSUPPORTED, f"{node.op} exists from opset {introduced} on, the model has opset {node.opset}"
        if node.domain in self.domains:
            return Support.UNSUPPORTED, f"the domain {node.domain or 'ai.onnx'} has no operator {node.op}"
        return Support.UNKNOWN, f"nothing is known of the domain {node.domain}"


class SchemaRules:
    """Whether a node is valid ONNX: the operator exists at its opset, is not deprecated, and takes what it is given.

    `doubts` are limits by operator: what the standard says in two ways.
    """

    def __init__(self, doubts: TableRules) -> None:
        import onnx

        self._doubts = doubts
        self._signatures = installed_signatures()
        self.facts = f"operator schemas of the installed onnx {onnx.__version__}"
        self.max_opset: int = onnx.defs.onnx_opset_version()
        self._answers: dict[object, Answer] = {}

    def answer(self, node: Node) -> Answer:
        """The schema's answer; the same for all nodes of one `signature_key`."""
        key = signature_key(node)
        if key not in self._answers:
            self._answers[key] = self._judge(node)
        return self._answers[key]

    def _judge(self, node: Node) -> Answer:
        refusal = self._signatures.refusal(node)
        if refusal is None and not node.domain and self._doubts.knows(node.op):
            return self._doubts.answer(node)
        rule = refusal[1] if refusal else f"{node.op} is an operator of {node.domain or 'ai.onnx'} {node.opset}"
        evidence = Evidence(rule, self.facts)
        return Answer(refusal[0], (rule,), evidence) if refusal else Answer(Support.SUPPORTED, (), evidence)


def signature_key(node: Node) -> tuple[object, ...]:
    """All that a schema looks at."""
    values = tuple(None if v is None else (v.dtype, bool(v.name)) for v in (*node.inputs, None, *node.outputs))
    return node.domain, node.op, node.opset, len(node.inputs), values, tuple(node.attributes)


@cache
def installed_signatures() -> Signatures:
    """The operators of the installed onnx package."""
    import onnx.defs

    return Signatures(onnx.defs.get_all_schemas_with_history())
