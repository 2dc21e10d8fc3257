"""What the rulebook says of an operator by itself, without a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from graphaudit.errors import RuleError
from graphaudit.findings import Evidence
from graphaudit.rulebook.conditions import spelled_range
from graphaudit.rulebook.rulebook import Rulebook, load_rulebook, targets
from graphaudit.rulebook.schema import DTYPES, OpRule
from graphaudit.rulebook.schemas import installed_signatures
from graphaudit.rulebook.target import Answer, Support
from graphaudit.text import suggestion

if TYPE_CHECKING:
    from graphaudit.graphs.view import Node
    from graphaudit.rulebook.signature import Parameter, Signature

_USUAL = ("float32", "int64", "bool")  # the dtype of a value, where nobody asks for another: the first that is valid


class Condition(msgspec.Struct, kw_only=True):
    """A limit that the target's table knows for the operator. `when` is empty where it always holds."""

    rule: str
    effect: str
    when: str
    source: str
    date: str | None


class OpAnswer(msgspec.Struct, kw_only=True):
    """What a target does with a node that has the operator's required inputs, in `dtypes`, and nothing else.

    An operator that is refused only as long as an attribute or an input is not right is supported with limits.
    `opset` is 0 for an ATen op. `opsets`, `torch` (versions) and `becomes` are what the target's table says; `engines`
    the dtypes that each engine takes.
    """

    target: str
    op: str
    opset: int
    dtypes: tuple[str, ...]
    support: Support
    engine: str | None
    reasons: tuple[str, ...]
    evidence: Evidence | None
    opsets: str = ""
    torch: str = ""
    becomes: tuple[str, ...] = ()
    engines: dict[str, tuple[str, ...]] = {}
    conditions: list[Condition] = []


def targets_for(op: str) -> list[str]:
    """The targets that judge graphs with such operators: ATen ops are spelled with dots."""
    graph = "fx" if "." in op.rpartition("::")[2] else "onnx"
    return [t.name for t in targets() if t.graph == graph]


def look_up(op: str, names: Sequence[str], opset: int | None = None, dtype: str | None = None) -> list[OpAnswer]:
    """Each target's answer for an operator, `domain::Name` outside ai.onnx, at `opset` or the target's own; or for
    an ATen op, `aten.cumsum.default`, which may leave `default` out.

    `dtype` is that of the data; the other inputs have the dtypes that the standard asks for. Raises RuleError for an
    operator that neither the standard nor a target knows and for a dtype that is none, TargetError.
    """
    if dtype is not None and dtype not in DTYPES:
        near = suggestion(dtype, DTYPES)
        raise RuleError(f"there is no dtype {dtype!r}", near or f"dtypes: {', '.join(sorted(DTYPES))}.")
    rulebooks = [load_rulebook(name) for name in names]
    if "." in op.rpartition("::")[2]:
        return _look_up_aten(op, rulebooks, dtype)
    domain, _, name = op.rpartition("::")
    domain = "" if domain == "ai.onnx" else domain
    plain = f"{domain}::{name}" if domain else name
    known = installed_signatures().introduced(domain, name) is not None
    if not known and not any(r.rule(plain) for r in rulebooks):
        near = suggestion(name, standard_operators())
        raise RuleError(f"neither the ONNX standard nor {', '.join(names)} knows an operator {op!r}", near)
    return [_answer(rulebook, plain, opset, dtype) for rulebook in rulebooks]


def _look_up_aten(op: str, rulebooks: Sequence[Rulebook], dtype: str | None) -> list[OpAnswer]:
    from graphaudit.graphs.view import Node, Value
    from graphaudit.rulebook.aten import aten_ops

    op = f"{op}.default" if op.count(".") == 1 and f"{op}.default" in aten_ops() else op
    domain = op.partition(".")[0]
    if (domain == "aten" and op not in aten_ops()) or domain == "ai":
        base = op.rpartition(".")[0]
        overloads = [known for known in aten_ops() if base in (known, known.rpartition(".")[0])]
        raise RuleError(f"the installed torch knows no operator {op!r}", suggestion(op, overloads or aten_ops()))
    value = Value("x", dtype or "float32")
    node = Node("asked", op, domain, (value,), (Value("y", dtype or "float32"),))
    return [_told(rulebook, op, node, 0) for rulebook in rulebooks]


def standard_operators() -> list[str]:
    """The operators of ai.onnx, by name, without those that are gone by now."""
    return installed_signatures().operators()


def core_aten_operators() -> list[str]:
    """The ATen ops that torch calls its core, by name: what every other one can be decomposed to."""
    from graphaudit.rulebook.aten import aten_ops

    return sorted(op.name for op in aten_ops().values() if op.core)


def _answer(rulebook: Rulebook, op: str, opset: int | None, dtype: str | None) -> OpAnswer:
    domain, _, name = op.rpartition("::")
    rule = rulebook.rule(op)
    ranges = rule.opsets if rule is not None and isinstance(rule.opsets, tuple) else ()
    own = rulebook.target.opset if not domain else max((high for _, high in ranges), default=1)
    return _told(rulebook, op, _node(domain, name, opset or own, dtype), opset or own)


def _told(rulebook: Rulebook, op: str, node: Node, opset: int) -> OpAnswer:
    answer, rule = rulebook.answer(node), rulebook.rule(op)
    ranges = rule.opsets if rule is not None and isinstance(rule.opsets, tuple) else ()
    any_opset = opset and rule is not None and rule.opsets == "any"
    return OpAnswer(
        target=rulebook.target.name,
        op=op,
        opset=opset,
        dtypes=tuple(v.dtype or "?" for v in node.inputs if v is not None),
        support=_support(answer, rule),
        engine=answer.engine,
        reasons=answer.reasons,
        evidence=answer.evidence,
        opsets="any" if any_opset else ", ".join(spelled_range(*r) for r in ranges),
        torch=", ".join(" to ".join(dict.fromkeys(versions)) for versions in rule.torch) if rule else "",
        becomes=tuple(rule.becomes or ()) if rule else (),
        engines=dict(rule.engines) if rule and rule.engines is not UNSET else {},
        conditions=list(_conditions(rulebook, op)),
    )


def _support(answer: Answer, rule: OpRule | None) -> Support:
    limits = rule.limits if rule else ()
    refusals = [limit for limit in limits if limit.effect == "refused" and limit.rule in answer.reasons]
    avoidable = [limit.when is not None and limit.when.is_about_the_node for limit in refusals]
    if answer.support is Support.UNSUPPORTED and avoidable and all(avoidable):
        return Support.LIMITED
    return answer.support


def _conditions(rulebook: Rulebook, op: str) -> Iterator[Condition]:
    rule = rulebook.rule(op)
    if rule is None:
        return
    for limit in rule.limits:
        source, date = rulebook.cite(limit.sources)
        when = limit.when.spelled() if limit.when else ""
        yield Condition(rule=limit.rule, effect=limit.effect, when=when, source=source, date=date)
    for attribute, ignored in rule.ignored.items():
        source, date = rulebook.cite(ignored.sources)
        harmless = " or ".join(repr(value) for value in ignored.harmless)
        when = f"unless it is {harmless}" if harmless else "where it is set"
        when += f", {ignored.when.spelled()}" if ignored.when else ""
        yield Condition(rule=f"{attribute} is never read", effect="differs", when=when, source=source, date=date)


def _node(domain: str, op: str, opset: int, dtype: str | None) -> Node:
    """A node with the required inputs, all outputs that must be there, and attributes whose values are not known."""
    from graphaudit.graphs.view import Node, Value

    signature = installed_signatures().find(domain, op, opset)
    if signature is None:
        value = Value("x", dtype)
        return Node("asked", op, domain, (value,), (Value("y", dtype),), opset=opset)
    chosen: dict[str, str | None] = {}
    parameters = (*signature.inputs, *signature.outputs)
    if dtype and not any(dtype in signature.types[p.variable] for p in parameters):
        chosen[parameters[0].variable] = dtype  # no valid node: let each target say so
    inputs = [Value(f"x{i}", t) for i, t in enumerate(_dtypes(signature, signature.inputs, 0, chosen, dtype))]
    outputs = [Value(f"y{i}", t) for i, t in enumerate(_dtypes(signature, signature.outputs, 1, chosen, dtype))]
    attributes = dict.fromkeys(signature.required)
    return Node("asked", op, domain, tuple(inputs), tuple(outputs), attributes, opset=opset)


def _dtypes(
    signature: Signature,
    parameters: tuple[Parameter, ...],
    least: int,
    chosen: dict[str, str | None],
    dtype: str | None,
) -> Iterator[str | None]:
    count = (signature.output_counts if least else signature.input_counts)[0]
    for index in range(max(count, 1) if parameters else 0):
        parameter = parameters[min(index, len(parameters) - 1)]
        allowed = signature.types[parameter.variable]
        wanted = [t for t in (dtype, *_USUAL) if t in allowed] or sorted(allowed)
        yield chosen.setdefault(parameter.variable, wanted[0] if wanted else None)
