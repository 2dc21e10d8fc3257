"""The options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from graphaudit.control_flow import ControlFlow
from graphaudit.findings import Severity


class Format(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


class FailOn(StrEnum):
    """The least severe finding that makes the exit status 1."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"

    @property
    def severity(self) -> Severity | None:
        """The threshold; None for never."""
        return None if self is FailOn.NEVER else Severity(self.value)


class OnDivergence(StrEnum):
    """What becomes of a pass whose result differs from the policy."""

    ROLLBACK = "rollback"
    STOP = "stop"


Flag = Annotated[bool, Parameter(negative="", show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Output:
    """How a command speaks.

    Parameters
    ----------
    format
        text for people; json: one document on standard output and nothing else.
    debug
        Show tracebacks and the messages of libraries.
    """

    format: Format = Format.TEXT
    debug: Flag = False

    @property
    def is_json(self) -> bool:
        """Whether a machine reads along."""
        return self.format is Format.JSON


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PolicyOptions:
    """Where to find what belongs to the policy, if not under its usual name in the same file.

    Parameters
    ----------
    trust
        Allow loading that can run code from the file: a Stable-Baselines3 .zip, unsafe parts of a .pt2.
    example_inputs
        Name to use instead of example_inputs: one call's positional arguments, a tuple.
    example_kwargs
        Name to use instead of example_kwargs: one call's keyword arguments, a dict.
    inputs_from
        Name to use instead of inputs: a function of a seed that returns a tuple.
    dynamic_shapes
        Name to use instead of dynamic_shapes: None or {dimension: "name"} for each argument.
    reference
        Name to use instead of reference: the full pipeline that the deployed policy must match.
    loop_bound
        How often a loop on tensors may run: N for every loop, or file.py:LINE=N for one; may be given several times.
    control_flow
        What becomes of a loop whose trip count is data. masks: as many masked passes as its bound says; without a bound
        it is refused. native: a loop of the graph (ONNX Loop). auto: masks for targets without loops; for the others a
        loop where no bound is known or a high one is. Branches on tensors are masks in each case.
    """

    trust: Flag = False
    example_inputs: str | None = None
    example_kwargs: str | None = None
    inputs_from: str | None = None
    dynamic_shapes: str | None = None
    reference: str | None = None
    loop_bound: Annotated[tuple[str, ...], Parameter(name="--loop-bound", negative="")] = ()
    control_flow: Annotated[ControlFlow, Parameter(name="--control-flow")] = ControlFlow.AUTO


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DeployedOptions:
    """What of the policy is deployed.

    Parameters
    ----------
    outputs
        The results that are deployed, by name or position: `action`, or `0,1`. Parts that only the others need, such
        as a value head, are cut away. All results without it.
    """

    outputs: Annotated[tuple[str, ...], Parameter(name="--outputs", negative="")] = ()

    @property
    def named(self) -> list[str]:
        """The names behind all `--outputs`."""
        return [name for text in self.outputs for name in text.split(",")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PipelineOptions:
    """Which passes run, and what is shown of them.

    Parameters
    ----------
    passes
        The passes to run, with options, as in fold_batch_norm,simplify_onnx(rounds=2) (default: the default pipeline).
    skip
        Passes not to run, separated by commas; may be given several times.
    on_divergence
        rollback: a pass that diverges leaves no trace and the rest goes on; stop: the rewrite ends there.
    bisect_limit
        Run only the first N passes of the pipeline.
    print_after
        Show the graph after this pass (all: after each that changed something) on standard error; may be given again.
    dump_dir
        Write the graph before and after each pass, and the difference, to this folder; for one that diverges, a
        reproducer too.
    time_passes
        Show where the time went, pass by pass.
    """

    passes: str | None = None
    skip: Annotated[tuple[str, ...], Parameter(name="--skip", negative="")] = ()
    on_divergence: OnDivergence = OnDivergence.ROLLBACK
    bisect_limit: int | None = None
    print_after: Annotated[tuple[str, ...], Parameter(name="--print-after", negative="")] = ()
    dump_dir: Path | None = None
    time_passes: Flag = False

    @property
    def skipped(self) -> list[str]:
        """The names behind all `--skip`."""
        return [name.strip() for text in self.skip for name in text.split(",") if name.strip()]
