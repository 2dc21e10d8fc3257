"""Sizes that may vary and that capture fixed at the example's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphaudit.findings import Place
from graphaudit.rules.checks._events import failed, frozen

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.capture import Blocker

_SPECIALISED = re.compile(r"speciali[sz]|constraint|not all values|marked .* dynamic", re.IGNORECASE)


@dataclass(frozen=True)
class FrozenSize:
    """A dynamic dimension that became a number. `node` is the graph's node that holds it, if there is a graph."""

    dimension: str
    place: Place | None
    message: str
    node: str | None = None


def frozen_sizes(subject: Subject) -> Iterator[FrozenSize]:
    """Dynamic dimensions that capture made constant, or refused because the code does."""
    for value in frozen(subject):
        if value.cause == "size":
            name = value.dimension or ""
            message = f"the graph holds {value.was}, which is {value.became} for another size of {name or 'an input'!r}"
            yield FrozenSize(name, value.place, message, value.node)
    if subject.capture is not None and failed(subject):
        for blocker in subject.capture.blockers:
            name = specialised_dimension(subject, blocker)
            if name:
                yield FrozenSize(name, blocker.place, f"the code fixes {name!r} at the example's size")


def specialised_dimension(subject: Subject, blocker: Blocker) -> str:
    """The dynamic dimension that a blocker says the code specialises; empty where it speaks of something else."""
    text = f"{blocker.reason} {blocker.detail}"
    if not _SPECIALISED.search(text):
        return ""
    return next((n for n in dynamic_names(subject) if re.search(rf"\b{re.escape(n)}\b", text)), "")


def dynamic_names(subject: Subject) -> list[str]:
    """Names of the dimensions that `dynamic_shapes` declares to vary."""
    if subject.policy is None:
        return []
    return list(dict.fromkeys(s for i in subject.policy.interface.inputs for s in i.shape if isinstance(s, str)))


def is_batch(subject: Subject, dimension: str) -> bool:
    """Whether a dimension is the first one of some input."""
    slots = subject.policy.interface.inputs if subject.policy else ()
    return any(slot.shape and slot.shape[0] == dimension for slot in slots)
