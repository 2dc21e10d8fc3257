"""Which finding was repaired by which pass, or would be, and why a pass left one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from graphaudit.findings import Finding, Severity
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.program import Program
from graphaudit.registry import passes
from graphaudit.results import PassRow
from graphaudit.rewrite.base import Level
from graphaudit.rewrite.pipeline import Fix
from graphaudit.rewrite.selection import select
from graphaudit.rewrite.structure import has_any
from graphaudit.rulebook.target import Target


def mark_fixed(findings: Iterable[Finding], fixes: Sequence[Fix]) -> None:
    """Write the pass into each finding that it repaired: the same defect at the same node, or at the same line."""
    for finding in findings:
        finding.fixed_by = _fixing(finding, fixes) or finding.fixed_by


def mark_fixable(findings: Sequence[Finding], graphs: Mapping[Target, Sequence[Program | OnnxModel]]) -> None:
    """Write into each finding that blocks the pass that rewrites it in the graphs of every target that it is said of.

    The passes are run and not checked: a rewrite does that, and may roll them back.
    """
    blocking = {f.name for f in findings if f.blocks}
    fixes = {target.name: list(_foreseen(given, target, blocking)) for target, given in graphs.items()}
    for finding in (f for f in findings if f.blocks):
        names = {_fixing(finding, known) for name, known in fixes.items() if finding.target in (None, name)}
        if len(names) == 1:
            finding.fixable_by = names.pop()


def _fixing(finding: Finding, fixes: Sequence[Fix]) -> str | None:
    for name, repaired, site in fixes:
        same_line = site.place is not None and (site.place.file, site.place.line) == (finding.file, finding.line)
        if finding.name in repaired and (same_line or site.node == finding.node):
            return name
    return None


def _foreseen(graphs: Sequence[Program | OnnxModel], target: Target, names: Collection[str]) -> Iterator[Fix]:
    """What the passes that fix one of `names` would rewrite, one after the other."""
    for given in graphs:
        graph: Any = given.copy()
        level = Level.FX if isinstance(graph, Program) else Level.ONNX
        for step in (p for p in select(target=target) if p.level is level and not set(names).isdisjoint(p.fixes)):
            if step.target_ops and not has_any(graph, step.target_ops):
                continue
            try:
                result = step.run(graph.copy(), target)
            except Exception:  # as in the pipeline: whatever a pass raises, it repairs nothing
                continue
            yield from ((step.name, step.fixes, site) for site in result.rewritten)
            graph = result.artifact


def explain_left(findings: Iterable[Finding], rows: Iterable[PassRow]) -> None:
    """Write into each finding that blocks why the pass that repairs its kind left that line alone."""
    left = [(passes()[row.name].fixes, site) for row in rows if row.name in passes() for site in row.left if site.place]
    for finding in findings:
        for names, site in left:
            same_line = site.place is not None and (site.place.file, site.place.line) == (finding.file, finding.line)
            if finding.blocks and finding.name in names and same_line:
                finding.message += f"; not rewritten: {site.reason}"
                break


def mark_captured(findings: Iterable[Finding], repaired: Iterable[str]) -> None:
    """Write the capture into the notes on control flow that it has made masks of."""
    for finding in findings:
        if finding.name in repaired and finding.severity is Severity.NOTE and finding.fixed_by is None:
            finding.fixed_by = "capture"
