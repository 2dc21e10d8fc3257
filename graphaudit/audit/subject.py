"""What a check may look at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from graphaudit.results import PassRow

if TYPE_CHECKING:
    from graphaudit.capture import Capture, Observation
    from graphaudit.export.translate import MissingTranslation
    from graphaudit.findings import Place
    from graphaudit.graphs.onnx_model import OnnxModel
    from graphaudit.graphs.view import GraphView
    from graphaudit.policy import Policy
    from graphaudit.rulebook import Rulebook


@dataclass(frozen=True)
class Refusal:
    """Why there is no model that runs: torch could not translate (`stage` is `export`), or ONNX Runtime, which checks
    every model, could not load it (`runtime`). `missing` names the nodes at fault, where nodes are; `place` is the line
    at fault where no node is."""

    stage: str
    reason: str
    missing: tuple[MissingTranslation, ...] = ()
    place: Place | None = None


@dataclass(frozen=True)
class Subject:
    """A policy on its way to a target. What does not exist (yet) is None.

    policy       the user's module and inputs; None when the subject is an `.onnx` file
    observation  what the eager module did on the inputs tried: branches on tensors, draws, writes, each with its line
    capture      the outcome of capture; `capture.program` is None when it failed
    model        the ONNX model exported for the target; None when export was not reached or failed
    rulebook     the target and its rules; None when no target is involved
    refusal      why `model` is None or does not run, where that was tried
    rows         the steps of a rewrite so far, each with its verdict
    """

    policy: Policy | None = None
    observation: Observation | None = None
    capture: Capture | None = None
    model: OnnxModel | None = None
    rulebook: Rulebook | None = None
    refusal: Refusal | None = None
    rows: tuple[PassRow, ...] = ()

    @property
    def target(self) -> str | None:
        """The target's name."""
        return self.rulebook.target.name if self.rulebook else None

    @property
    def captured(self) -> bool:
        """Whether there is a graph."""
        return self.capture is not None and self.capture.program is not None

    @cached_property
    def fx(self) -> GraphView | None:
        """The captured graph of ATen ops."""
        if self.capture is None or self.capture.program is None:
            return None
        from graphaudit.graphs.fx_view import view_program

        return view_program(self.capture.program)

    @cached_property
    def onnx(self) -> GraphView | None:
        """The exported ONNX graph."""
        if self.model is None:
            return None
        from graphaudit.graphs.onnx_view import view_model

        return view_model(self.model)

    @cached_property
    def judged(self) -> GraphView | None:
        """The graph that the target sees, for its rulebook: ATen ops after torch's own decompositions, or the ONNX
        model with its local functions replaced by their bodies, so that dtypes are known."""
        if self.rulebook is not None and self.rulebook.target.graph == "fx":
            if self.capture is None or self.capture.program is None:
                return None
            from graphaudit.graphs.decompose import decompose
            from graphaudit.graphs.fx_view import view_program

            return view_program(decompose(self.capture.program, self.rulebook.makes_others_of))
        if self.onnx is None or self.model is None or not self.onnx.functions:
            return self.onnx
        from onnx.inliner import inline_local_functions

        from graphaudit.graphs.onnx_model import OnnxModel
        from graphaudit.graphs.onnx_view import view_model

        inlined = inline_local_functions(self.model.proto, convert_version=True)  # a function has opsets of its own
        return view_model(OnnxModel(inlined, self.model.places))
