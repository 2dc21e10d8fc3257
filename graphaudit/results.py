"""The typed results of `audit` and `rewrite`, which `--format json` prints. Imports nothing heavy."""

from __future__ import annotations

import msgspec

from graphaudit.equivalence.verdict import Certificate, Verdict
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

    `branches` and `loops` count the places where eager decides on tensor values, on the inputs tried.
    """

    method: str | None
    branches: int = 0
    loops: int = 0
    seconds: float = 0.0


class LeftAlone(msgspec.Struct, kw_only=True):
    """A candidate that a pass did not rewrite, and why."""

    node: str
    reason: str
    place: Place | None = None


class PassRow(msgspec.Struct, kw_only=True):
    """One step of the rewrite and its check. `rolled_back` steps left no trace in the result."""

    name: str
    level: str  # fx, onnx, or export for the translation between them
    changed: int
    verdict: Verdict | None = None  # None: nothing changed, so there was nothing to check
    rolled_back: bool = False
    left: list[LeftAlone] = []
    seconds: float = 0.0


class Report(msgspec.Struct, kw_only=True):
    """What an audit or a rewrite found out. `fit` says for each target whether the policy can go there as it stands."""

    schema_version: int = SCHEMA_VERSION
    graphaudit_version: str
    command: str  # audit or rewrite
    policy: PolicySummary
    capture: CaptureSummary
    targets: list[str]
    findings: list[Finding]
    fit: dict[str, bool]
    passes: list[PassRow] = []
    certificate: Certificate | None = None
    bundle: str | None = None
    statement: str = ""
    seconds: float = 0.0

    def reaches(self, threshold: Severity | None) -> bool:
        """Whether any unrepaired finding is at or above `threshold`."""
        return any(f.reaches(threshold) for f in self.findings)
