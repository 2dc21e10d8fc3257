"""How loops that tensors decide reach a target: what may be asked for, and what was chosen. Imports nothing heavy."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from graphaudit.findings import Place


class ControlFlow(StrEnum):
    """How a loop whose trip count is data goes into the graph.

    masks   as many passes as its bound says, each under a mask, and a guard; without a bound it is refused
    native  as a loop (`torch.while_loop`, ONNX `Loop`), whatever its bound
    auto    masks for targets without loops; for the others a loop where there is no bound, or where it is faster
    """

    MASKS = "masks"
    NATIVE = "native"
    AUTO = "auto"


class LoopChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one loop. `form` is `masks` or `native`, `passes` how many masked ones there are at most, `why` a
    clause, `targets` those that it was chosen for."""

    form: ControlFlow
    place: Place | None = None
    passes: int | None = None
    why: str = ""
    targets: tuple[str, ...] = ()
