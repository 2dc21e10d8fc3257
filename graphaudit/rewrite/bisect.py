"""Which pass, and which of its nodes, makes which input diverge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphaudit.equivalence.reference import Reference
from graphaudit.equivalence.verdict import Claim, Verdict, weakest
from graphaudit.graphs.program import Program
from graphaudit.results import PassRow
from graphaudit.rewrite.base import Pass, PassResult, Site
from graphaudit.rewrite.pipeline import judge
from graphaudit.rewrite.reduce import all_minimal
from graphaudit.rewrite.sites import calls, run_without
from graphaudit.rulebook.target import Target
from graphaudit.runtimes.onnxruntime import runner


@dataclass(frozen=True)
class Divergence:
    """A pass that did not hold, the graph it was run on, and what held for that graph."""

    step: Pass[Any]
    before: Any
    result: PassResult[Any] | None
    claim: Claim


@dataclass
class Divergences:
    """An instrument that keeps every pass that did not hold."""

    found: list[Divergence] = field(default_factory=list)
    claim: Claim = Claim.EQUIVALENT

    def after(self, step: Pass[Any], before: Any, result: PassResult[Any] | None, row: PassRow, /) -> None:
        """Remember a pass whose verdict does not hold."""
        if row.verdict is None:
            return
        if row.verdict.holds:
            self.claim = weakest([self.claim, row.verdict.claim])
        else:
            self.found.append(Divergence(step, before, result, self.claim))


@dataclass(frozen=True)
class Fault:
    """The smallest set of nodes that makes a pass diverge, on the inputs of `references`; no nodes: all of the pass."""

    divergence: Divergence
    sites: tuple[Site, ...]
    references: tuple[Reference, ...]
    verdict: Verdict


def compare(artifact: Any, reference: Reference, step: str, claims: Claim) -> Verdict:
    """How an artifact of either kind compares with eager on the samples of `reference`."""
    return reference.check(step, artifact.runner() if isinstance(artifact, Program) else runner(artifact), claims)


def find_faults(divergence: Divergence, references: Sequence[Reference], target: Target) -> list[Fault]:
    """Every minimal set of nodes at fault. `references` hold one sample each; those that hold are left out."""
    before = divergence.before
    sites = {site.node: site for site in divergence.result.rewritten} if divergence.result else {}
    everything = set(calls(before))
    names = [name for name in (sites or everything) if name in everything]

    def verdict(visible: Sequence[str], reference: Reference) -> Verdict:
        return _verdict(divergence, [n for n in names if n not in set(visible)], reference, target)

    failing = [r for r in references if not _verdict(divergence, (), r, target).holds]
    if not failing:
        return []
    fails = _remembered(lambda visible: any(not verdict(visible, r).holds for r in failing))
    if fails([]):
        return [Fault(divergence, (), tuple(failing), _verdict(divergence, (), failing[0], target))]
    faults = []
    for group in all_minimal(names, fails):
        on = [(r, v) for r in failing if not (v := verdict(group, r)).holds]
        chosen = tuple(sites.get(name) or _site(before, name) for name in group)
        faults.append(Fault(divergence, chosen, tuple(r for r, _ in on), on[0][1]))
    return faults


def _verdict(divergence: Divergence, hidden: Sequence[str], reference: Reference, target: Target) -> Verdict:
    step, before = divergence.step, divergence.before

    def check(name: str, artifact: Any, claims: Claim) -> Verdict:
        return compare(artifact, reference, name, claims)

    claims = weakest([divergence.claim, step.claims])
    return judge(step, before, lambda: run_without(step, before, target, hidden), check, claims)


def _remembered(fails: Callable[[list[str]], bool]) -> Callable[[list[str]], bool]:
    known: dict[tuple[str, ...], bool] = {}

    def asked(visible: list[str]) -> bool:
        key = tuple(visible)
        if key not in known:
            known[key] = fails(visible)
        return known[key]

    return asked


def _site(before: Any, name: str) -> Site:
    if not isinstance(before, Program):
        return Site(name, next((before.place(n) for n in before.proto.graph.node if n.name == name), None))
    return Site(name, next((before.place(n) for n in before.graph.nodes if n.name == name), None))
