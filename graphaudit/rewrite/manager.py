"""The pass manager: which passes run, what happens when one diverges, and who looks on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from graphaudit.equivalence.verdict import Claim, Proof, Verdict
from graphaudit.rewrite.base import Artifact, Level, Pass
from graphaudit.rewrite.pipeline import Instrument, PipelineResult, run_pipeline
from graphaudit.rewrite.selection import select
from graphaudit.rulebook.target import Target


class OnDivergence(StrEnum):
    """What becomes of a pass whose result is not equivalent."""

    ROLLBACK = "rollback"  # it leaves no trace, and the rest goes on
    STOP = "stop"  # the rewrite ends there, without a bundle


@dataclass(frozen=True)
class PassManager:
    """The `pipeline` in order, FX passes before ONNX passes; only its first `limit` passes run (None: all).

    For a pass that diverges, reproducers are written to the folder `reproducers`, if there is one.
    """

    pipeline: tuple[Pass[Any], ...]
    on_divergence: OnDivergence = OnDivergence.ROLLBACK
    limit: int | None = None
    instruments: tuple[Instrument, ...] = ()
    reproducers: Path | None = None

    @classmethod
    def of(
        cls,
        passes: str | None = None,
        skip: Iterable[str] = (),
        on_divergence: OnDivergence | str = OnDivergence.ROLLBACK,
        limit: int | None = None,
        instruments: Sequence[Instrument] = (),
        reproducers: Path | None = None,
    ) -> PassManager:
        """A manager of what `select` chooses. Raises PassError and RuleError as that does."""
        return cls(tuple(select(passes, skip)), OnDivergence(on_divergence), limit, tuple(instruments), reproducers)

    def watched_by(self, instrument: Instrument) -> PassManager:
        """The same, with one more that looks on."""
        return replace(self, instruments=(*self.instruments, instrument))

    def run(
        self,
        level: Level,
        artifact: Artifact,
        *,
        check: Callable[[str, Artifact, Claim], Verdict],
        target: Target,
        prove: Callable[[Artifact, Artifact], Proof] | None = None,
        claim: Claim = Claim.EQUIVALENT,
        on_step: Callable[[str], None] | None = None,
        only: Callable[[Pass[Any]], bool] = lambda _: True,
    ) -> PipelineResult[Artifact]:
        """The passes of one level on `artifact`, of those that `only` lets run; see `run_pipeline`."""
        return run_pipeline(
            artifact,
            [p for p in self.pipeline if p.level is level and only(p)],
            check=check,
            target=target,
            prove=prove,
            claim=claim,
            on_step=on_step,
            omitted=self._beyond_limit(),
            stop=self.on_divergence is OnDivergence.STOP,
            instruments=self.instruments,
        )

    def _beyond_limit(self) -> dict[str, str]:
        if self.limit is None:
            return {}
        return {
            step.name: f"not run: it is number {number} of the pipeline, and the limit is {self.limit}"
            for number, step in enumerate(self.pipeline, 1)
            if number > self.limit
        }
