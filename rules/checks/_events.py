"""What checks ask of the observed run and of capture: which events, and how much they matter.

A capture that failed, or that made a constant of a value which varies, turns an event at that line into an error. A
capture that took the line as it is leaves a note, because the graph is compared with the eager module afterwards.
Event kinds are written as the values of `EventKind`, so that this file imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.findings import Place, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.capture import Event, Frozen

# Kinds whose own check reports an error at their line whenever capture failed.
EXPLAIN_FAILURE = (
    "bool",
    "item",
    "tolist",
    "numpy",
    "validation",
    "data-shape",
    "gradient",
    "scripted",
    "control-flow-op",
    "packed",
)
# Kinds whose own check reports an error at their line whenever capture froze a value there.
EXPLAIN_FROZEN = (*EXPLAIN_FAILURE, "rebuilt", "python-random", "numpy-random", "clock", "write-attribute")

DRAWS = ("random", "generator", "python-random", "numpy-random")


def events(subject: Subject, *kinds: str) -> Iterator[Event]:
    """The events of those kinds, in order; none where nothing was observed."""
    if subject.observation is None:
        return
    from graphaudit.capture.events import EventKind

    yield from subject.observation.of(*(EventKind(kind) for kind in kinds))


def failed(subject: Subject) -> bool:
    """Whether capture was tried and there is no graph."""
    return subject.capture is not None and subject.capture.program is None


def frozen(subject: Subject) -> list[Frozen]:
    """The values that capture made constant although they vary."""
    return list(subject.capture.frozen) if subject.capture is not None else []


def frozen_at(subject: Subject, place: Place | None) -> bool:
    """Whether capture froze a value at that line."""
    return place is not None and any(same_line(f.place, place) for f in frozen(subject))


def same_line(one: Place | None, other: Place | None) -> bool:
    """Whether two places are the same line of the same file."""
    return one is not None and other is not None and (one.file, one.line) == (other.file, other.line)


def unless_captured(subject: Subject, place: Place | None, captured: Severity = Severity.NOTE) -> Severity:
    """ERROR where capture failed, or froze a value at `place`; `captured` where it took the line as it is."""
    return Severity.ERROR if failed(subject) or frozen_at(subject, place) else captured


def draw_severity(subject: Subject, place: Place | None, otherwise: Severity) -> Severity:
    """ERROR where draws decide the result, which a bundle would not follow; `otherwise` where none was seen to."""
    seen = subject.observation
    decides = seen is not None and (seen.changes_with_seed or seen.changes_between_calls)
    return Severity.ERROR if decides or frozen_at(subject, place) else otherwise


def operator(event: Event) -> str:
    """`aten::randn.generator` → `randn`: the operator of an event, without namespace and overload."""
    return event.detail.rpartition("::")[2].partition(".")[0].strip("_")


def explained(subject: Subject, place: Place | None, kinds: tuple[str, ...]) -> bool:
    """Whether an event of one of `kinds` happened at that line, so that its own check speaks of it."""
    return place is not None and any(same_line(e.place, place) for e in events(subject, *kinds))
