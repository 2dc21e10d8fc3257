"""The contract of a pass. A pass lives in one file of `passes/` and is named verb + object.

Verbs: decompose, convert, fuse, fold, insert, remove, rewrite, canonicalize, hoist, lift, register, simplify, clean.

The module docstring is the specification: before → after, with the conditions as bullets. A pass declares its needs
as class data, works on an artifact of its own (the pipeline hands it a copy, so a rolled-back pass leaves no trace),
and returns what it changed and why it left the other candidates alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from graphaudit.equivalence.verdict import Claim, Conversion
from graphaudit.findings import Place
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.program import Program
from graphaudit.rulebook.target import Target

# The key of `fx.Node.meta` that says what the target lacks of a node's translation, where no ONNX pass could mend it.
LACKS = "lacks"

Artifact = TypeVar("Artifact", Program, OnnxModel)


class Level(StrEnum):
    """Which graph a pass works on."""

    FX = "fx"
    ONNX = "onnx"


INSIDE_REGION = "it stands inside a branch or a loop"  # why passes on the main graph leave a node alone


@dataclass(frozen=True)
class Site:
    """A node that a pass rewrote, or left alone for `reason`; for a node that the target does not take, `conversion`
    says which ways were tried."""

    node: str
    place: Place | None = None
    reason: str = ""
    conversion: Conversion | None = None


@dataclass
class PassResult(Generic[Artifact]):
    """The artifact after the pass, the sites it rewrote, and the candidates it left alone, each with a reason."""

    artifact: Artifact
    rewritten: list[Site] = field(default_factory=list)
    left: list[Site] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether the pass did anything. A second run on its own output must leave this False."""
        return bool(self.rewritten)

    def record(self, node: str, place: Place | None, reason: str = "") -> None:
        """Put down that a node was rewritten, or, with a reason, that it was left alone."""
        (self.left if reason else self.rewritten).append(Site(node, place, reason))


class PassOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a user may set of a pass: typed fields with defaults, limits as `Annotated[int, msgspec.Meta(ge=1)]`."""


class Pass(ABC, Generic[Artifact]):
    """One rewrite of an FX program or of an ONNX model. `options` is an instance of its `Options`."""

    name: ClassVar[str]
    level: ClassVar[Level]
    fixes: ClassVar[tuple[str, ...]] = ()  # names of the findings that it repairs
    target_ops: ClassVar[frozenset[str]] = frozenset()  # skipped when the graph has none of them; empty: always run
    requires: ClassVar[tuple[str, ...]] = ()  # properties the graph must have
    ensures: ClassVar[tuple[str, ...]] = ()  # properties it has afterwards
    runs_after: ClassVar[tuple[str, ...]] = ()  # names of passes
    runs_before: ClassVar[tuple[str, ...]] = ()  # names of passes, for a pass that those cannot know of
    only_without: ClassVar[tuple[str, ...]] = ()  # properties of `Target`: it runs for those that lack one of them
    runs_first: ClassVar[bool] = False  # before every pass of its level that does not say so of itself, and without
    # a check of what went before: it may be what makes the target run the graph at all
    runs_last: ClassVar[bool] = False  # after every pass of its level that does not say so of itself
    claims: ClassVar[Claim] = Claim.EQUIVALENT  # the weakest verdict under which the result may be kept

    default: ClassVar[bool] = True  # whether it runs without being asked for
    Options: ClassVar[type[PassOptions]] = PassOptions

    def __init__(self, options: PassOptions | None = None) -> None:
        self.options: Any = options if options is not None else self.Options()

    @classmethod
    def suits(cls, target: Target) -> bool:
        """Whether the pass is in the pipeline of the target."""
        return not cls.only_without or not all(getattr(target, name) for name in cls.only_without)

    @abstractmethod
    def run(self, artifact: Artifact, target: Target) -> PassResult[Artifact]:
        """Rewrite `artifact` in place or anew. Raise nothing for a non-match: report it in `left`."""
