"""How the graphs of a policy were made, in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphaudit.capture.events import EventKind, Observation
from graphaudit.capture.frontend import Capture
from graphaudit.control_flow import LoopChoice
from graphaudit.results import CaptureSummary

_DECISIONS = ("if", "elif", "ifexp", "and", "or", "not", "call:max", "call:min")


def summarise(observation: Observation, made: Sequence[Capture], targets: Mapping[str, Capture]) -> CaptureSummary:
    """The method, how often eager decided on tensor values, and what became of each loop for which target."""
    return CaptureSummary(
        method=next((c.method for c in made if c.method is not None), None),
        branches=_places(observation, _DECISIONS),
        loops=_places(observation, ("while", "for")),
        choices=_choices(targets),
        seconds=sum(c.seconds for c in {id(c): c for c in made}.values()),
    )


def _choices(captures: Mapping[str, Capture]) -> list[LoopChoice]:
    """What became of each loop, said once for the targets for which it is the same."""
    targets: dict[LoopChoice, list[str]] = {}
    for target, made in captures.items():
        for choice in made.loops:
            targets.setdefault(choice, []).append(target)
    return [msgspec.structs.replace(choice, targets=tuple(names)) for choice, names in targets.items()]


def _places(observation: Observation, statements: Sequence[str]) -> int:
    kinds = (EventKind.BOOL, EventKind.ITEM, EventKind.TOLIST)
    return len({e.place for e in observation.of(*kinds) if e.statement in statements})
