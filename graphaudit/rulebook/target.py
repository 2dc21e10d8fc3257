"""A target and the four answers of its rulebook. Imports nothing heavy."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from graphaudit.findings import Evidence


class Support(StrEnum):
    """Whether a target takes a node. Unknown is an answer and never becomes yes or no."""

    SUPPORTED = "supported"
    LIMITED = "supported with limits"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


class Answer(msgspec.Struct, frozen=True):
    """The rulebook's answer for one node. `reasons` names the limits, or why not; `engine` is where it would run.

    `hazards` are those of the reasons under which the target takes the node and may compute something else in silence.
    """

    support: Support
    reasons: tuple[str, ...] = ()
    evidence: Evidence | None = None
    engine: str | None = None
    hazards: tuple[str, ...] = ()


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where the graph goes.

    `graph` is what is judged: the `onnx` model, or the `fx` graph of ATen ops as it stands, and then no model is made.
    `opset` is the ai.onnx opset exported at; `compute_dtype` is what the target computes float32 graphs in unless
    told otherwise (`float32` or `float16`); `loops` and `branches` say whether ONNX `Loop`/`Scan` and `If` run;
    `functions` whether model-local functions do; `dynamic_shapes` whether data-dependent shapes do;
    `zero_sizes` whether tensors without elements are taken, `several_domains` whether a second opset domain always is.
    `keeps_nan` names the ONNX operators among maxima, minima and bounds whose kernels return NaN for NaN.
    `soc_versions` are the names of its chips for ATC, `shape_ranges` whether ATC takes ranges of sizes for it, and
    `max_gears` how many alternatives of one size (0: it is not ATC that compiles).
    `facts` names the sources of the rules and `date` the day they were read (ISO 8601).
    """

    name: str
    summary: str
    graph: Literal["onnx", "fx"] = "onnx"
    opset: int = 0
    max_opset: int = 0
    compute_dtype: str = "float32"
    loops: bool = True
    branches: bool = True
    functions: bool = True
    dynamic_shapes: bool = True
    zero_sizes: bool = True
    several_domains: bool = True
    keeps_nan: tuple[str, ...] = ()
    soc_versions: tuple[str, ...] = ()
    shape_ranges: bool = True
    max_gears: int = 0
    facts: str = ""
    date: str = ""
