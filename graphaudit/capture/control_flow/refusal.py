"""What ends a predicated capture: a construct that cannot become masks."""

from __future__ import annotations

import sys
from types import FrameType

from graphaudit.findings import Place
from graphaudit.graphs.places import place_of


class Refused(BaseException):
    """A construct that masks cannot express, with the reason and the user's line.

    Not an Exception, so that neither a `try` of the user's nor one inside torch takes it for an error of its own.
    """

    def __init__(self, reason: str, kind: str = "control-flow") -> None:
        super().__init__(reason)
        self.reason = reason
        self.kind = kind
        self.place = user_place()


def user_place() -> Place | None:
    """The user's line that is being executed; transpiled code carries the lines of its source."""
    frames = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    inner = next((i for i, (file, _) in enumerate(frames) if "/torch/export/" in file), len(frames))
    return place_of(reversed(frames[:inner]))
