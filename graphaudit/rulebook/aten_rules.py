"""Answers about graphs of ATen ops: from the facts of the target's file, and from what torch does where it has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from graphaudit.rulebook.aten import AtenOp, aten_ops, installed_torch
from graphaudit.rulebook.schema import OpRule, torch_version
from graphaudit.rulebook.table import TableRules
from graphaudit.rulebook.target import Answer, Support

if TYPE_CHECKING:
    from graphaudit.graphs.view import Node
    from graphaudit.rulebook.schema import TargetFile

_TORCH = "torch"  # the key of the source that torch's own list is
_COMPOSITES = {"aten.kernels": ("implicit", "explicit", "delegate"), "aten.converters": ("implicit",)}


class AtenRules(TableRules):
    """Whether the target takes a node of an FX graph.

    The op's own rule answers; then what torch makes of the op on such a target; then the rule for its namespace
    (`operator.*`), or for any (`*`). A rule that does not hold for the installed torch counts as none.
    """

    def __init__(self, file: TargetFile) -> None:
        super().__init__(file)
        self._composites = () if file.source is UNSET else _COMPOSITES.get(file.source, ())
        self.facts = f"{file.facts}, for the installed torch {installed_torch()}"

    def answer(self, node: Node) -> Answer:
        """Unknown for an operator that neither the file nor torch's own list knows."""
        rule = self._rule(node.op)
        if rule is not None:
            return self._by_rule(node.op, rule, node)
        composite = self._composite(node.op)
        if composite is not None:
            return composite
        shared = self._file.ops.get(f"{node.domain}.*") or self._file.ops.get("*")
        if shared is None:
            return Answer(Support.UNKNOWN, (f"{self._file.name} has no rule for {node.op}",))
        return self._by_rule(node.op, shared, node)

    def makes_others_of(self, op: str) -> bool:
        """Whether torch replaces the op by other operators before the target sees the graph."""
        known, rule = aten_ops().get(op), self._rule(op)
        takes = rule is not None and (rule.opsets is UNSET or bool(rule.opsets))
        return bool(self._composites) and known is not None and known.implicit and not takes

    def _rule(self, op: str) -> OpRule | None:
        rule = self._file.ops.get(op)
        if rule is None or not rule.torch:
            return rule
        version = torch_version(installed_torch())
        return rule if any(torch_version(a) <= version <= torch_version(b) for a, b in rule.torch) else None

    def _composite(self, name: str) -> Answer | None:
        """What torch does on any device: nothing that the target must have a kernel for."""
        op = aten_ops().get(name)
        if op is None:
            return None
        sources = (_TORCH,)
        if op.implicit and "implicit" in self._composites:
            reason = f"torch makes other operators of {name}; which ones depends on the call, and an audit judges those"
            return Answer(Support.UNKNOWN, (reason,), self._evidence(reason, sources))
        if op.delegate and "delegate" in self._composites and self._rule(op.delegate) is not None:
            return Answer(Support.SUPPORTED, (), self._evidence(f"{name} runs as {op.delegate}", sources))
        if op.explicit and "explicit" in self._composites:
            return Answer(Support.SUPPORTED, (), self._evidence(_calls_others(op), sources))
        return None

    def _refusal(self, name: str, rule: OpRule, node: Node) -> Answer | None:
        return None if rule.torch else super()._refusal(name, rule, node)


def _calls_others(op: AtenOp) -> str:
    return f"torch's own kernel of {op.name} calls other operators, on any device"
