"""Subjects for checks: hand-made observations over a real small policy, and real policies audited for real."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from graphaudit.audit.subject import Subject
from graphaudit.capture import Blocker, Capture, Event, EventKind, Frozen, Observation, capture, observe
from graphaudit.findings import Finding, Place, merge
from graphaudit.policy import Policy
from graphaudit.quiet import quiet
from graphaudit.registry import checks
from tests.helpers import make_program

CASES = Path(__file__).parents[2] / "cases"
LINE = Place("/home/user/walker.py", 57, 8, 20)


def event(kind: str, detail: str = "", statement: str = "", *inside: str, place: Place | None = LINE) -> Event:
    """One event at the made-up line 57 of walker.py."""
    return Event(EventKind(kind), place, detail, statement, frozenset(inside))


def observed(
    *events: Event,
    captured: bool = True,
    blockers: Iterable[Blocker] = (),
    frozen: Iterable[Frozen] = (),
    between_calls: bool = False,
    with_seed: bool = False,
) -> Subject:
    """A subject that saw `events`, with the graph of a linear layer, or with a capture that failed."""
    policy, program = make_program(nn.Linear(3, 2), (torch.ones(2, 3),))
    outcome = Capture(program if captured else None, "torch.export" if captured else None, list(blockers), list(frozen))
    seen = Observation(list(events), changes_between_calls=between_calls, changes_with_seed=with_seed)
    return Subject(policy=policy, observation=seen, capture=outcome)


def audited(
    module: nn.Module,
    args: tuple[Any, ...],
    inputs: Callable[[int], Sequence[Any]] | None = None,
    dynamic_shapes: Sequence[Any] | None = None,
    *,
    capturing: bool = True,
) -> Subject:
    """A real policy: observed on its example and its own inputs, and captured."""
    policy = Policy(type(module).__name__, module, args, inputs=inputs, dynamic_shapes=dynamic_shapes)
    with quiet():
        seen = observe(policy, [inputs(seed) for seed in range(1, 9)] if inputs else [])
        outcome = capture(policy) if capturing else None
    return Subject(policy=policy, observation=seen, capture=outcome)


def case(name: str) -> tuple[ModuleType, Subject]:
    """A file of tests/cases and its audited policy."""
    path = next(CASES.glob(f"{name}*.py"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    dims = getattr(module, "dynamic_shapes", None)
    return module, audited(module.build(), module.example_inputs(), getattr(module, "inputs", None), dims)


def findings(subject: Subject, *names: str) -> list[Finding]:
    """What the named checks say (all checks that need no target, if none is named)."""
    wanted = [checks()[n] for n in names] if names else ours()
    return merge(f for check in wanted for f in check().examine(subject))


def said(subject: Subject, *names: str) -> list[tuple[str, str]]:
    """(name, severity) of what the checks say."""
    return [(f.name, f.severity.value) for f in findings(subject, *names)]


def ours() -> list[Any]:
    """The checks of the families that need neither target nor reference."""
    return [c for c in checks().values() if c.code[:3] in ("GA0", "GA1", "GA4", "GA5") or "GA600" < c.code < "GA640"]
