"""The typed results of `audit` and `rewrite`, which `--format json` prints. Imports nothing heavy."""

from __future__ import annotations

import msgspec

from graphaudit.control_flow import LoopChoice
from graphaudit.equivalence.verdict import Certificate, Conversion, Verdict
from graphaudit.findings import Finding, Place, Severity

SCHEMA_VERSION = 1


class PolicySummary(msgspec.Struct, kw_only=True):
    """The policy in numbers. `operators` counts distinct operators, `nodes` all calls in the captured graph."""

    name: str
    file: str | None = None
    parameters: int | None = None
    inputs: int | None = None
    outputs: int | None = None
    operators: int | None = None
    nodes: int | None = None


class CaptureSummary(msgspec.Struct, kw_only=True):
    """How the graph was made. `method` is `torch.export`, `torch.export strict`, `pt2` or `onnx`; None: it was not.

    `branches` and `loops` count the places where eager decides on tensor values, on the inputs tried; `choices` say
    what became of each loop whose trip count is data.
    """

    method: str | None
    branches: int = 0
    loops: int = 0
    choices: list[LoopChoice] = []
    seconds: float = 0.0


class LeftAlone(msgspec.Struct, kw_only=True):
    """A candidate that a pass did not rewrite, and why."""

    node: str
    reason: str
    place: Place | None = None


class PassRow(msgspec.Struct, kw_only=True):
    """One step of the rewrite and its check. `rolled_back` steps left no trace in the result; `place` is the line at
    which the result first differs, where that is known."""

    name: str
    level: str  # fx, onnx, or export for the translation between them
    changed: int
    verdict: Verdict | None = None  # None: nothing changed, so there was nothing to check
    rolled_back: bool = False
    left: list[LeftAlone] = []
    conversions: list[Conversion] = []
    place: Place | None = None
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether its check held, or there was nothing to check."""
        return self.verdict is None or self.verdict.holds


class Islands(msgspec.Struct, kw_only=True):
    """A graph between an accelerator and the rest, or between a target and what it does not take.

    `nodes` counts what runs, constants left out, and `on` what stays on the accelerator; what is refused or not known
    does not. An island is a connected part on the accelerator that runs in one go: no path leaves it and comes back.
    `departures` is how often execution must leave the accelerator, however well nodes are ordered, and `crossings` how
    many edges lead from one side to the other; `worst` is the node off the accelerator with the most of them. `share`
    and `operations_share` (0 to 1; 1 for a graph without any) are the parts of the nodes and of the `operations`, the
    floating-point operations of one run by the formulas of `graphaudit.audit.arithmetic`, that stay.
    """

    nodes: int
    on: int
    islands: int
    departures: int
    crossings: int
    worst: str | None = None
    worst_crossings: int = 0
    share: float = 1.0
    operations: int = 0
    operations_share: float = 1.0


class OperatorRow(msgspec.Struct, kw_only=True):
    """One operator of the graphs that the targets judge, `count` nodes of it at most, and the least good answer that
    each target's rulebook gives for one of them; a target whose graph has no such operator is left out."""

    op: str
    count: int
    answers: dict[str, str]


class Report(msgspec.Struct, kw_only=True):
    """What an audit or a rewrite found out. `fit` says for each target whether the policy can go there as it stands.

    `operators` and `islands` are what an audit adds: what each target says of each operator, and how the graph falls
    into parts on it.
    """

    schema_version: int = SCHEMA_VERSION
    graphaudit_version: str
    command: str  # audit or rewrite
    policy: PolicySummary
    capture: CaptureSummary
    targets: list[str]
    findings: list[Finding]
    fit: dict[str, bool]
    operators: list[OperatorRow] = []
    islands: dict[str, Islands] = {}
    passes: list[PassRow] = []
    certificate: Certificate | None = None
    bundle: str | None = None
    statement: str = ""
    seconds: float = 0.0

    def reaches(self, threshold: Severity | None) -> bool:
        """Whether any unrepaired finding is at or above `threshold`."""
        return any(f.reaches(threshold) for f in self.findings)


class NodeAt(msgspec.Struct, kw_only=True):
    """A node, and the line it stands for."""

    node: str
    place: Place | None = None


class Culprit(msgspec.Struct, kw_only=True):
    """A smallest set of nodes that makes a pass diverge, and on which inputs. No `nodes`: the step as a whole.

    `reproducer` is a Python file that replays the pass on a small graph; `note` says why there is none.
    """

    step: str
    nodes: list[NodeAt]
    inputs: list[str]
    message: str
    reproducer: str | None = None
    note: str = ""


class Bisection(msgspec.Struct, kw_only=True):
    """What makes a policy diverge: all culprits, in the order of the pipeline. `inputs` counts those compared on."""

    schema_version: int = SCHEMA_VERSION
    policy: str
    target: str
    inputs: int
    steps: list[str]
    culprits: list[Culprit]
    statement: str
