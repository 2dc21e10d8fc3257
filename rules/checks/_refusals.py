"""What ended a capture of control flow, by the name of the finding that explains it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.findings import Place
from graphaudit.rules.checks._events import failed

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject

# Findings that are made of refusals alone. The check of a loop, a shape or a table reads its own refusals as well.
EXPLAINED = (
    "aliased-write",
    "branch-types-differ",
    "caught-error",
    "generator-function",
    "list-length-differs",
    "loop-bound-unknown",
    "branch-output-shapes-differ",
    "unread-source",
    "value-in-text",
)


def refusals(subject: Subject, name: str) -> Iterator[tuple[str, Place | None]]:
    """The reason and the line of every refusal of that name; none where there is a graph."""
    if subject.capture is not None and failed(subject):
        for blocker in subject.capture.blockers:
            if blocker.kind == name:
                yield blocker.reason, blocker.place
