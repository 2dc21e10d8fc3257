"""The five kinds of equivalence, and what a check has to say about one step. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from graphaudit.findings import Place


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


class Verdict(msgspec.Struct, kw_only=True):
    """What the check found after one step.

    `worst_abs` is the largest |Δ| to the eager module over elements where both are finite, in the unit of the output,
    on inputs of the size that was seen (inputs drawn ten and a thousand times larger are compared, but have units of
    their own); `tolerance` is the bound that applied at that element. `undecided` counts elements (integer ties, values
    at a jump) on which eager itself changes its answer when its inputs move by a few units in the last place.
    `repaired` counts elements where eager is not finite and the step agrees with the float64 reference instead.
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
    note: str = ""
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the step may be kept."""
        return self.claim is not Claim.DIVERGED


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
    """All verdicts from the user's eager module to the last artifact, and the conditions under which they hold."""

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
    paths: PathCoverage = msgspec.field(default_factory=PathCoverage)
