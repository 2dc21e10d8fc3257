"""Answers from the facts that a target's own file holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import UNSET

from graphaudit.findings import Evidence
from graphaudit.rulebook.conditions import same, spelled_range
from graphaudit.rulebook.schema import Limit, OpRule, TargetFile, cite
from graphaudit.rulebook.target import Answer, Support

if TYPE_CHECKING:
    from graphaudit.graphs.view import Node, Value

_ORDER = ("refused", "undocumented", "differs", "moved", "noted")
_SUPPORT = {"refused": Support.UNSUPPORTED, "undocumented": Support.UNKNOWN}


class TableRules:
    """Whether the target takes a node, by the rules of its file."""

    def __init__(self, file: TargetFile, otherwise: Callable[[Node], Answer] | None = None) -> None:
        self._file = file
        self._otherwise = otherwise
        self._evidences: dict[tuple[str, tuple[str, ...]], Evidence] = {}
        self.facts = file.facts
        newest = file.properties["max_opset"].value if "max_opset" in file.properties else 0
        self.max_opset = newest if isinstance(newest, int) else 0  # what is no number, `Target` refuses
        self._narrow = str(file.properties["compute_dtype"].value) if "compute_dtype" in file.properties else "float32"

    def knows(self, op: str) -> bool:
        """Whether there is a rule for an operator of ai.onnx."""
        return op in self._file.ops

    def answer(self, node: Node) -> Answer:
        """Unknown for an op without a rule, unsupported at an opset outside its ranges, else by its limits."""
        name = f"{node.domain}::{node.op}" if node.domain else node.op
        rule = self._file.ops.get(name)
        if rule is None:
            if self._otherwise is not None:
                return self._left(name, self._otherwise(node))
            return Answer(Support.UNKNOWN, (f"{self._file.name} has no rule for {name}",))
        return self._by_rule(name, rule, node)

    def _by_rule(self, name: str, rule: OpRule, node: Node) -> Answer:
        refusal = self._refusal(name, rule, node)
        if refusal is not None:
            return refusal
        limits = sorted(self._limits(rule, node), key=lambda limit: _ORDER.index(limit.effect))
        if not limits:
            preferred = next(iter(rule.engines)) if rule.engines else None
            return Answer(Support.SUPPORTED, (), self._evidence(f"{name} is taken", rule.sources), preferred)
        first = limits[0]
        return Answer(
            support=_SUPPORT.get(first.effect, Support.LIMITED),
            reasons=tuple(dict.fromkeys(limit.rule for limit in limits)),
            evidence=self._evidence(first.rule, first.sources),
            engine=next((limit.engine for limit in limits if limit.engine), None),
            hazards=tuple(limit.rule for limit in limits if limit.effect == "differs"),
        )

    def _left(self, name: str, answer: Answer) -> Answer:
        """The answer for a node that the target leaves to another one."""
        left = f"{self._file.name} leaves {name} to {self._file.otherwise}"
        support = Support.LIMITED if answer.support is Support.SUPPORTED else answer.support
        return Answer(support, (left, *answer.reasons), answer.evidence, answer.engine or "CPU", answer.hazards)

    def _refusal(self, name: str, rule: OpRule, node: Node) -> Answer | None:
        if rule.opsets == "any":
            return None
        ranges = rule.opsets or ()
        if not ranges:
            reason = rule.why or f"{self._file.name} does not take {name}"
            return Answer(Support.UNSUPPORTED, (reason,), self._evidence(reason, rule.sources))
        if node.opset is None:
            return Answer(Support.UNKNOWN, (f"the model imports no opset of the domain {node.domain or 'ai.onnx'}",))
        if any(low <= node.opset <= high for low, high in ranges):
            return None
        spans = ", ".join(spelled_range(low, high) for low, high in ranges)
        reason = f"{name} is taken at opset {spans} only, the model has opset {node.opset}"
        return Answer(Support.UNSUPPORTED, (reason,), self._evidence(reason, rule.sources))

    def _limits(self, rule: OpRule, node: Node) -> Iterator[Limit]:
        for limit in rule.limits:
            holds = True if limit.when is None else limit.when.holds(node)
            if holds:
                yield limit
            elif holds is None:
                yield Limit(f"{limit.rule} (whether this applies here is not known)", "noted", limit.sources)
        for attribute, ignored in rule.ignored.items():
            value = node.attributes.get(attribute, ignored.default)
            applies = ignored.when is None or ignored.when.holds(node)
            if value is not None and applies and not same(value, ignored.harmless):
                reason = f"the attribute {attribute} is never read, and here it is {value!r}"
                yield Limit(reason, "differs", ignored.sources)
        yield from self._engine_limits(rule, node) if rule.engines is not UNSET else self._dtype_limits(node)

    def _engine_limits(self, rule: OpRule, node: Node) -> Iterator[Limit]:
        """An op whose dtypes are known for each engine: on which one does this node run?"""
        assert rule.engines is not UNSET
        data = node.inputs[rule.data_input : rule.data_input + 1]
        dtypes = [self._computed(v) for v in _present(data) or _present(node.outputs[:1])]
        preferred = next(iter(rule.engines), "")
        for dtype in dtypes:
            converted = self._file.dtypes.get(dtype or "")
            if converted is not None and converted.effect == "differs":
                yield Limit(converted.rule, converted.effect, converted.sources)
                continue
            if dtype is None or dtype in rule.engines[preferred]:
                continue
            engine = next((e for e, taken in rule.engines.items() if dtype in taken), None)
            if engine is None:
                yield Limit(f"no kernel of {node.op} for {dtype} is documented", "undocumented", rule.sources)
            else:
                yield Limit(
                    f"{node.op} in {dtype} runs on the {engine}, not the {preferred}",
                    "moved",
                    rule.sources,
                    engine=engine,
                )

    def _dtype_limits(self, node: Node) -> Iterator[Limit]:
        present = {v.dtype for v in _present((*node.inputs, *node.outputs))}
        for dtype, rule in self._file.dtypes.items():
            if dtype in present:
                yield Limit(rule.rule, rule.effect, rule.sources, engine=rule.engine)

    def _computed(self, value: Value) -> str | None:
        return self._narrow if value.dtype == "float32" else value.dtype

    def _evidence(self, rule: str, sources: tuple[str, ...]) -> Evidence:
        key = (rule, sources)
        if key not in self._evidences:
            self._evidences[key] = Evidence(rule, *cite(sources, self._file.sources))
        return self._evidences[key]


def _present(values: Iterable[Value | None]) -> list[Value]:
    return [v for v in values if v is not None and v.name]
