"""What ends a predicated capture: a construct that cannot become masks."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import CodeType, FrameType

from graphaudit.findings import Place
from graphaudit.graphs.places import code_in, is_engine, place_of

GENERATOR = "it is a generator"
UNDRAWN = "random-draw"


class Refused(BaseException):
    """A construct that masks cannot express, with the reason and the user's line.

    Not an Exception, so that neither a `try` of the user's nor one inside torch takes it for an error of its own.
    """

    def __init__(self, reason: str, kind: str = "control-flow") -> None:
        super().__init__(reason)
        self.reason = reason
        self.kind = kind
        self.place = user_place()

    @classmethod
    def at(cls, place: Place | None, reason: str, kind: str = "control-flow") -> Refused:
        """A refusal of a line that ran earlier."""
        refusal = cls(reason, kind)
        refusal.place = place or refusal.place
        return refusal


def refuse_if_left_alone(reasons: Mapping[CodeType, tuple[str, int]]) -> None:
    """Raise Refused where the user's function that asks a tensor for its value could not be transpiled."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (is_engine(frame.f_code.co_filename) and not frame.f_code.co_filename.startswith("<s")):
        frame = frame.f_back
    for code, (reason, line) in reasons.items() if frame is not None else ():
        if frame.f_code in code_in(code):  # type: ignore[union-attr]
            where = f" in line {line}" if line else ""
            kind = "generator-function" if reason == GENERATOR else "unread-source"
            said = f"a tensor decides inside of {code.co_name}, which cannot be rewritten: {reason}{where}"
            raise Refused(said, kind)


def user_place() -> Place | None:
    """The user's line that is being executed; transpiled code carries the lines of its source."""
    frames = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    inner = next((i for i, (file, _) in enumerate(frames) if "/torch/export/" in file), len(frames))
    return place_of(reversed(frames[:inner]))
