"""Where and why a capture failed, from the exception that torch.export raised."""

from __future__ import annotations

import re
import traceback

from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.events import Blocker
from graphaudit.findings import Place
from graphaudit.graphs.places import place_in_trace, place_of

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_LIMIT = 240


def blocker_of(error: BaseException) -> Blocker:
    """One line of reason, the user's line, torch's name for the error, and the full text for `--debug`."""
    detail = _ANSI.sub("", "".join(traceback.format_exception(error)))
    message = _ANSI.sub("", str(error))
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    reason = lines[0] if lines else type(error).__name__
    if isinstance(error, Refused):
        return Blocker(reason[:_LIMIT], error.place, error.kind, detail)
    return Blocker(reason[:_LIMIT], _place(error, message), type(error).__name__, detail)


def _place(error: BaseException, message: str) -> Place | None:
    """The innermost user frame of the traceback or its causes; torch._dynamo names the line in its message only."""
    seen: BaseException | None = error
    while seen is not None:
        frames = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(seen.__traceback__)]
        place = place_of(_below_export(frames))
        if place is not None:
            return place
        seen = seen.__cause__ or seen.__context__
    return place_in_trace(message)


def _below_export(frames: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """What torch.export called; the script that called graphaudit is no part of the policy."""
    inner = [i for i, (file, _) in enumerate(frames) if "/torch/export/" in file]
    return frames[inner[0] :] if inner else []
