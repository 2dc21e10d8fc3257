"""Finds target files, and answers for their targets."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET

from graphaudit.errors import RuleError, TargetError
from graphaudit.findings import Evidence
from graphaudit.registry import target_folders
from graphaudit.rulebook.schema import OpRule, TargetFile, cite, extend, parse, validate
from graphaudit.rulebook.target import Answer, Target

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from graphaudit.graphs.view import Node

_PACKAGE = "graphaudit.rules.targets"
INSTALLED = "installed"  # the value of max_opset where the installed package decides


class Rules(Protocol):
    """One kind of source. `facts` names it, and `max_opset` is the highest ai.onnx opset that it knows."""

    @property
    def facts(self) -> str: ...

    @property
    def max_opset(self) -> int: ...

    def answer(self, node: Node) -> Answer:
        """Whether the target takes the node."""


class Rulebook:
    """The facts about one target."""

    def __init__(self, file: TargetFile) -> None:
        self._file = file
        self._rules = _rules(file)
        self.target = _target(file, self._rules)

    def answer(self, node: Node) -> Answer:
        """Whether the target takes a node of the graph that `target.graph` names, and on which facts that rests."""
        return self._rules.answer(node)

    def makes_others_of(self, op: str) -> bool:
        """Whether torch replaces an ATen op by other operators before the target sees the graph."""
        from graphaudit.rulebook.aten_rules import AtenRules

        return isinstance(self._rules, AtenRules) and self._rules.makes_others_of(op)

    def rule(self, op: str) -> OpRule | None:
        """What the target's table says of an operator (`domain::Name` outside ai.onnx); None without a table."""
        return self._file.ops.get(op)

    def cite(self, sources: Iterable[str]) -> tuple[str, str | None]:
        """What stands behind the keys of a rule's sources, and the day that the last of them was read."""
        return cite(sources, self._file.sources)

    def evidence(self, name: str) -> Evidence | None:
        """What a property of the target (`max_opset`, `loops`, …) rests on; None where it is only the usual value."""
        fact = self._file.properties.get(name)
        return Evidence(fact.rule, *cite(fact.sources, self._file.sources)) if fact else None


@cache
def load_rulebook(name: str) -> Rulebook:
    """The rulebook of a target. Raises TargetError if there is none, RuleError if its file is not valid."""
    file = target_file(name)
    if file.abstract:
        raise _no_target(name)
    return Rulebook(file)


def rewritten_for(target: str) -> Rulebook:
    """The rulebook of a target that takes a model file. Raises TargetError."""
    rulebook = load_rulebook(target)
    if rulebook.target.graph == "fx":
        raise TargetError(
            f"there is no rewrite for {target}, only an audit: it takes no model file that a bundle could hold",
            f"Run `graphaudit audit --target {target}`, or rewrite for a target that takes ONNX.",
        )
    return rulebook


@cache
def targets() -> list[Target]:
    """All targets by name. Reads the rule files and the installed registries; never imports torch."""
    names = sorted(f.removesuffix(".json") for f in _files())
    return [load_rulebook(n).target for n in names if not _read(n).abstract]


def target_file(name: str) -> TargetFile:
    """What a target's file says, with all that it inherits; that of an abstract one too.

    Raises TargetError if there is none, RuleError if it is not valid.
    """
    if f"{name}.json" not in _files():
        raise _no_target(name)
    return _read(name)


def read_target_file(text: bytes, file: str, read_parent: Any = None) -> TargetFile:
    """A target file with all that it extends, valid as a whole. Raises RuleError."""
    parsed = parse(text, file)
    if parsed.extends is not None:
        parsed = extend((read_parent or _read)(parsed.extends), parsed)
    if not parsed.abstract:
        validate(parsed, file, text)
    return parsed


@cache
def _read(name: str) -> TargetFile:
    file = _files().get(f"{name}.json")
    if file is None:
        raise RuleError(f"there is no rule file {name}.json", "Correct `extends`.")
    parsed = read_target_file(file.read_bytes(), file.name)
    if parsed.name != name:
        raise RuleError(f"{file.name}: the target in it is called {parsed.name!r}", "Name file and target alike.")
    return parsed


@cache
def _files() -> dict[str, Traversable]:
    folders = [*target_folders(), resources.files(_PACKAGE)]  # a plugin does not replace a target of ours
    return {f.name: f for folder in folders for f in folder.iterdir() if f.name.endswith(".json")}


def _no_target(name: str) -> TargetError:
    known = (file.removesuffix(".json") for file in _files())
    names = sorted(n for n in known if not _read(n).abstract)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    return TargetError(f"there is no target {name!r}", f"{hint}Targets: {', '.join(names)}.")


def _rules(file: TargetFile) -> Rules:
    """The kind of source that the file names. Imported here, since each pulls in what it answers from."""
    from graphaudit.rulebook.table import TableRules

    if file.source == "onnx.defs":
        from graphaudit.rulebook.schemas import SchemaRules

        return SchemaRules(TableRules(file))
    if file.source == "onnxruntime.kernels":
        from graphaudit.rulebook.kernels import KernelRules

        return KernelRules(file.provider)
    if file.source is not UNSET and file.source.startswith("aten."):
        from graphaudit.rulebook.aten_rules import AtenRules

        return AtenRules(file)
    return TableRules(file, load_rulebook(file.otherwise).answer if file.otherwise else None)


def _target(file: TargetFile, rules: Rules) -> Target:
    values = {name: fact.value for name, fact in file.properties.items()}
    if values.get("max_opset") == INSTALLED:
        values["max_opset"] = rules.max_opset
    about = {"name": file.name, "summary": file.summary, "facts": rules.facts, "date": file.date}
    try:
        return msgspec.convert({**about, **values}, Target)
    except msgspec.ValidationError as error:
        raise RuleError(f"{file.name}.json: properties: {error}", "Properties are the fields of `Target`.") from error
