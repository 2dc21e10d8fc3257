"""The five kinds of equivalence, and what a check has to say about one step. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from graphaudit.findings import Place
from graphaudit.text import counted


class Claim(StrEnum):
    """What a verdict claims; see docs/equivalence.md."""

    EQUIVALENT = "equivalent"
    GIVEN_NOISE = "equivalent given noise"
    GIVEN_STATE = "equivalent given state"
    WHERE_FINITE = "equivalent where finite"
    BOUNDED = "bounded"
    DIVERGED = "diverged"


# From the strongest to the weakest.
ORDER = (
    Claim.EQUIVALENT,
    Claim.WHERE_FINITE,
    Claim.GIVEN_NOISE,
    Claim.GIVEN_STATE,
    Claim.BOUNDED,
    Claim.DIVERGED,
)


def weakest(claims: Iterable[Claim]) -> Claim:
    """The weakest of `claims`; EQUIVALENT if there are none."""
    return max(claims, key=ORDER.index, default=Claim.EQUIVALENT)


class ProofStep(msgspec.Struct, kw_only=True):
    """One place where two models differ: the value before, the one after, and how it was proved, or why it was not."""

    before: str
    after: str
    proved: bool
    how: str
    place: Place | None = None


class Proof(msgspec.Struct, kw_only=True):
    """What is shown of a step from one ONNX model to the next without running them; see docs/equivalence.md.

    `proved` outputs are those of the model before it, on every input; `compared` ones were held to eager on the inputs
    tried, and no more. `steps` are the rewrites that this hangs on; `reason` says why nothing could be asked.
    """

    prover: str
    proved: list[str] = []
    compared: list[str] = []
    steps: list[ProofStep] = []
    reason: str = ""

    @property
    def sentence(self) -> str:
        """`proved the same as before, but for 1 rewrite, only compared: mul → x (z3-solver is not installed)`."""
        if self.reason:
            return f"not proved: {self.reason}"
        if not self.compared:
            exact = f", {counted(len(self.steps), 'rewrite')} in exact arithmetic" if self.steps else " on every input"
            return f"proved the same as before{exact}"
        open_ = [step for step in self.steps if not step.proved]
        shown = "; ".join(f"{s.before} → {s.after} ({s.how})" for s in open_[:1]) + "; …" * (len(open_) > 1)
        return f"proved the same as before, but for {counted(len(open_), 'rewrite')}, only compared: {shown}"


class Verdict(msgspec.Struct, kw_only=True):
    """What the check found after one step.

    `worst_abs` is the largest |Δ| to the eager module over elements where both are finite, in the unit of the output,
    on inputs of the size that was seen (inputs drawn ten and a thousand times larger are compared, but have units of
    their own); `tolerance` is the bound that applied at that element. `undecided` counts elements (integer ties, values
    at a jump) on which eager itself changes its answer when its inputs move by a few units in the last place.
    `repaired` counts elements where eager is not finite and the step agrees with the float64 reference instead;
    `not_finite_on` names the inputs on which eager is not finite and the step says something else.
    """

    step: str
    claim: Claim
    inputs: int
    worst_abs: float = 0.0
    tolerance: float = 0.0
    worst_output: str | None = None
    worst_input: str | None = None
    undecided: int = 0
    repaired: int = 0
    not_finite_on: list[str] = []
    note: str = ""
    proof: Proof | None = None  # of a step on ONNX models
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the step may be kept."""
        return self.claim is not Claim.DIVERGED


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """How a node that the target does not take was made legal. `way` is what did it, empty where nothing did.

    `lacks` says what the target refuses of it; `tried` are the ways that failed before, in order, each with what it
    failed on.
    """

    node: str
    operator: str
    lacks: str
    way: str = ""
    tried: tuple[str, ...] = ()
    place: Place | None = None

    @property
    def failure(self) -> str:
        """Why the node stays; empty where a way held."""
        return "" if self.way else f"tried: {'; '.join(self.tried) or 'nothing, since no way to write it is known'}"


class Uncovered(msgspec.Struct, kw_only=True):
    """One way that no input takes: `outcome` is `false`, `true`, `runs 0 times` and so on."""

    place: Place
    expression: str
    outcome: str


class PathCoverage(msgspec.Struct, kw_only=True):
    """Which ways through the policy's own code the inputs walk.

    Every decision on tensors counts twice (true, false), every loop whose length is data for 0, 1 and more passes, and
    for the most that it can run where that is known. Ways that end in an exception do not count. `unknown` says what
    could not be followed.
    """

    covered: int = 0
    total: int = 0
    uncovered: list[Uncovered] = []
    unknown: list[str] = []

    @property
    def complete(self) -> bool:
        """Whether every way was walked, and none is unknown."""
        return self.covered == self.total and not self.unknown


class Certificate(msgspec.Struct, kw_only=True):
    """All verdicts from the user's eager module to the last artifact, the conditions under which they hold, and how
    each node that the target does not take was made legal."""

    schema_version: int = 1
    policy: str
    target: str
    claim: Claim
    statement: str
    inputs: int
    input_origins: dict[str, int] = {}
    worst_abs: float
    verdicts: list[Verdict]
    conditions: list[str] = []
    conversions: list[Conversion] = []
    paths: PathCoverage = msgspec.field(default_factory=PathCoverage)
