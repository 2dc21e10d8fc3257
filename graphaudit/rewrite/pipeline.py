"""Pass, check, pass, check: what a check does not confirm leaves no trace.

Each pass works on a copy. What it changed is kept only if the copy is well formed and the numeric check holds;
otherwise the artifact from before goes on to the next pass, and the row of the pass says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol

import networkx as nx

from graphaudit.equivalence.verdict import Claim, Conversion, Proof, Verdict, weakest
from graphaudit.errors import RuleError
from graphaudit.results import LeftAlone, PassRow
from graphaudit.rewrite.base import Artifact, Pass, PassResult, Site
from graphaudit.rewrite.structure import find_malformation, has_any
from graphaudit.rulebook.target import Target

Fix = tuple[str, tuple[str, ...], Site]  # name of the pass, names of the findings that it fixes, where


class Instrument(Protocol):
    """Looks on as passes run; changes nothing."""

    def after(self, step: Pass[Any], before: Any, result: PassResult[Any] | None, row: PassRow, /) -> None:
        """`step` was run on `before` and made `result` (None: it raised); `row` says what became of it."""


@dataclass
class PipelineResult(Generic[Artifact]):
    """The artifact after all passes that held, what holds for it, a row for each pass, and what they fixed.

    `stopped` says that a pass diverged and the passes after it were not run.
    """

    artifact: Artifact
    claim: Claim = Claim.EQUIVALENT
    rows: list[PassRow] = field(default_factory=list)
    fixes: list[Fix] = field(default_factory=list)
    stopped: bool = False


def order(passes: Iterable[Pass[Any] | type[Pass[Any]]]) -> list[Pass[Any]]:
    """The passes so that each stands after those it `runs_after`, before those it `runs_before`, and after all that
    ensure what it `requires`; those that say `runs_first` or `runs_last` at that end.

    Among passes that are free to stand anywhere, the name decides. Names that are not among `passes` are ignored.
    Raises RuleError for a cycle, and for a property that is required and ensured by no pass.
    """
    instances = [p() if isinstance(p, type) else p for p in passes]
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(p.name for p in instances)
    for late in instances:
        graph.add_edges_from((name, late.name) for name in late.runs_after if name in graph)
        graph.add_edges_from((late.name, name) for name in late.runs_before if name in graph)
        graph.add_edges_from((p.name, late.name) for p in instances if late.runs_last and not p.runs_last)
        graph.add_edges_from((late.name, p.name) for p in instances if late.runs_first and not p.runs_first)
        for wanted in late.requires:
            sources = [p.name for p in instances if wanted in p.ensures and p is not late]
            if not sources:
                raise RuleError(
                    f"the pass {late.name} requires {wanted!r}, which no pass ensures",
                    "Add the pass that ensures it, or take the requirement away.",
                )
            graph.add_edges_from((name, late.name) for name in sources)
    try:
        names = list(nx.lexicographical_topological_sort(graph))
    except nx.NetworkXUnfeasible:
        cycle = [edge[0] for edge in nx.find_cycle(graph)]
        first = cycle.index(min(cycle))
        cycle = cycle[first:] + cycle[:first]
        raise RuleError(
            f"these passes each have to run before the next: {' → '.join([*cycle, cycle[0]])}",
            "Break the cycle in their runs_after, runs_before, requires or ensures.",
        ) from None
    by_name = {p.name: p for p in instances}
    return [by_name[name] for name in names]


def run_pipeline(
    artifact: Artifact,
    passes: Sequence[Pass[Artifact] | type[Pass[Artifact]]],
    *,
    check: Callable[[str, Artifact, Claim], Verdict],
    target: Target,
    prove: Callable[[Artifact, Artifact], Proof] | None = None,
    claim: Claim = Claim.EQUIVALENT,
    on_step: Callable[[str], None] | None = None,
    omitted: Mapping[str, str] | None = None,
    stop: bool = False,
    instruments: Sequence[Instrument] = (),
) -> PipelineResult[Artifact]:
    """Run `passes` in their `order` on `artifact`, which is left as it is.

    `check(step, artifact, claims)` compares a changed artifact with the user's eager module; of one that holds,
    `prove(before, after)` says what is certain beyond that. `on_step` is told the name of each pass before it runs.
    `claim` is what holds for `artifact` itself: every later step is compared with eager as well, so no step can claim
    more than the steps before it. Passes that are `omitted`, each for a reason, are not run. With `stop`, the first
    pass that diverges is the last that runs.
    """
    result = PipelineResult(artifact, claim=claim)
    ensured: set[str] = set()
    for step in order(passes):
        reason = (omitted or {}).get(step.name) or _why_impossible(step, ensured)
        if reason:
            left = [LeftAlone(node="", reason=reason)]
            result.rows.append(PassRow(name=step.name, level=step.level, changed=0, left=left))
            continue
        if on_step is not None:
            on_step(step.name)
        row = _run_step(result, step, check, prove, target, instruments)
        result.rows.append(row)
        if row.verdict is None or row.verdict.holds:
            ensured.update(step.ensures)
        elif stop:
            row.rolled_back, result.stopped = False, True
            break
    return result


def _why_impossible(step: Pass[Any], ensured: set[str]) -> str:
    missing = [p for p in step.requires if p not in ensured]
    return f"the graph lacks {', '.join(missing)}: the pass that ensures it was rolled back" if missing else ""


def _run_step(
    result: PipelineResult[Artifact],
    step: Pass[Artifact],
    check: Callable[[str, Artifact, Claim], Verdict],
    prove: Callable[[Artifact, Artifact], Proof] | None,
    target: Target,
    instruments: Sequence[Instrument],
) -> PassRow:
    """One pass and its check; a step that holds becomes the artifact of `result`."""
    started = time.perf_counter()
    before, outcome = result.artifact, None
    row = PassRow(name=step.name, level=step.level, changed=0)
    if not step.suits(target) or (step.target_ops and not has_any(before, step.target_ops)):
        return row

    def run() -> PassResult[Artifact]:
        nonlocal outcome
        outcome = step.run(before.copy(), target)
        return outcome

    verdict = judge(step, before, run, check, weakest([result.claim, step.claims]))
    if outcome is not None:
        row.changed = len(outcome.rewritten)
        row.conversions = _conversions(outcome)
        row.left = [LeftAlone(node=s.node, reason=s.reason, place=s.place) for s in outcome.left]
    if outcome is None or outcome.changed:
        row.verdict = verdict
    if row.verdict is not None and not row.verdict.holds:
        row.rolled_back = True
    elif row.verdict is not None and outcome is not None:
        row.verdict.proof = prove(before, outcome.artifact) if prove is not None else None
        result.artifact = outcome.artifact
        result.claim = weakest([result.claim, row.verdict.claim])
        result.fixes.extend((step.name, step.fixes, site) for site in outcome.rewritten)
    row.seconds = time.perf_counter() - started
    for instrument in instruments:
        instrument.after(step, before, outcome, row)
    return row


def _conversions(outcome: PassResult[Any]) -> list[Conversion]:
    return [s.conversion for s in (*outcome.rewritten, *outcome.left) if s.conversion is not None]


def judge(
    step: Pass[Artifact],
    before: Artifact,
    run: Callable[[], PassResult[Artifact]],
    check: Callable[[str, Artifact, Claim], Verdict],
    claims: Claim,
) -> Verdict:
    """What `run` makes of `before`: well formed, and then what `check` says. Nothing changed is equivalent."""
    try:
        outcome = run()
        if not outcome.changed:
            return Verdict(step=step.name, claim=Claim.EQUIVALENT, inputs=0)
        malformation = find_malformation(before, outcome.artifact)
        if malformation is not None:
            return _diverged(step, malformation)
        return check(step.name, outcome.artifact, claims)
    except Exception as error:  # passes are contributors' code: whatever one raises, the policy goes on without it
        return _diverged(step, f"{type(error).__name__}: {_first_line(error)}")


def _diverged(step: Pass[Any], note: str) -> Verdict:
    return Verdict(step=step.name, claim=Claim.DIVERGED, inputs=0, note=note)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
