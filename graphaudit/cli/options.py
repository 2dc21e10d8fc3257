"""The options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from cyclopts import Parameter

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
    """

    trust: Flag = False
    example_inputs: str | None = None
    example_kwargs: str | None = None
    inputs_from: str | None = None
    dynamic_shapes: str | None = None
    reference: str | None = None
    loop_bound: Annotated[tuple[str, ...], Parameter(name="--loop-bound", negative="")] = ()
