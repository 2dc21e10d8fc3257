"""Finds what makes a policy diverge: the steps, in each pass the smallest sets of nodes, and the inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from graphaudit.equivalence.reference import Reference
from graphaudit.journey import Journey, Rewriting
from graphaudit.results import Bisection, Culprit, NodeAt, PassRow
from graphaudit.rewrite.bisect import Divergence, Divergences, Fault, find_faults
from graphaudit.rewrite.manager import OnDivergence, PassManager
from graphaudit.rewrite.reproducer import write_reproducer
from graphaudit.rulebook import Rulebook
from graphaudit.rulebook.target import Target
from graphaudit.text import counted


def bisect_journey(
    journey: Journey, rulebook: Rulebook, manager: PassManager, count: int, seed: int, folder: Path | None
) -> Bisection:
    """Every culprit on `count` inputs drawn from `seed`. Reproducers go to `folder`, if given. Raises OSError."""
    seen = Divergences()
    watched = replace(manager, on_divergence=OnDivergence.ROLLBACK).watched_by(seen)
    travelled = journey.travel(rulebook, count, seed, watched)
    culprits = list(_culprits(travelled, seen, rulebook.target, folder, journey.say)) if travelled.reference else []
    return Bisection(
        policy=journey.policy.name,
        target=rulebook.target.name,
        inputs=len(travelled.reference.samples) if travelled.reference else 0,
        steps=[row.name for row in travelled.rows],
        culprits=culprits,
        statement=_statement(travelled, culprits, rulebook.target.name),
    )


def write_reproducers(
    travelled: Rewriting, seen: Divergences, target: Target, folder: Path, say: Callable[[str], None]
) -> None:
    """Write a reproducer for each culprit of a rewrite, and name nodes and file in its finding. Raises OSError."""
    if travelled.reference is None or not seen.found:
        return
    for culprit in _culprits(travelled, seen, target, folder, say):
        finding = next((f for f in travelled.findings if f.node == culprit.step), None)
        if finding is None or not culprit.nodes:
            continue
        finding.message += f"; at fault: {', '.join(n.node for n in culprit.nodes)}"
        place = culprit.nodes[0].place
        if finding.file is None and place is not None:
            finding.file, finding.line = place.file, place.line
        if culprit.reproducer is not None:
            finding.remedy += f" {culprit.reproducer} replays it."


def _culprits(
    travelled: Rewriting, seen: Divergences, target: Target, folder: Path | None, say: Callable[[str], None]
) -> Iterator[Culprit]:
    assert travelled.reference is not None
    whole = travelled.reference
    diverged = {d.step.name: d for d in seen.found}
    references = [whole.single(number) for number in range(len(whole.samples))] if diverged else []
    for row in travelled.rows:
        if row.verdict is None or row.verdict.holds:
            continue
        if row.name not in diverged:
            yield Culprit(step=row.name, nodes=[], inputs=[], message=row.verdict.note)
            continue
        say(f"bisecting {row.name}")
        yield from _of_pass(diverged[row.name], row, references, target, folder)


def _of_pass(
    divergence: Divergence, row: PassRow, references: list[Reference], target: Target, folder: Path | None
) -> Iterator[Culprit]:
    faults = find_faults(divergence, references, target)
    if not faults:
        note = "no single input shows it; all inputs together do"
        yield Culprit(step=row.name, nodes=[], inputs=[], message=row.verdict.note if row.verdict else "", note=note)
    for number, fault in enumerate(faults, 1):
        yield _culprit(fault, target, folder, number)


def _culprit(fault: Fault, target: Target, folder: Path | None, number: int) -> Culprit:
    file, note = write_reproducer(fault, target, folder, number) if folder is not None else (None, "")
    return Culprit(
        step=fault.divergence.step.name,
        nodes=[NodeAt(node=site.node, place=site.place) for site in fault.sites],
        inputs=[reference.samples[0].origin for reference in fault.references],
        message=fault.verdict.note,
        reproducer=str(file) if file else None,
        note=note,
    )


def _statement(travelled: Rewriting, culprits: list[Culprit], target: str) -> str:
    if travelled.reference is None:
        return f"nothing was rewritten for {target}: the audit already refuses the policy"
    steps = list(dict.fromkeys(c.step for c in culprits))
    on = counted(len(travelled.reference.samples), "input")
    if not culprits:
        return f"every step holds on {on}"
    others = f", then {', '.join(steps[1:])}" if len(steps) > 1 else ""
    return f"{counted(len(culprits), 'culprit')} on {on}: first {steps[0]}{others}"
