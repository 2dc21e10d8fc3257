"""Which finding was repaired by which pass, and why a pass left one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphaudit.findings import Finding, Severity
from graphaudit.registry import passes
from graphaudit.results import PassRow
from graphaudit.rewrite.pipeline import Fix


def mark_fixed(findings: Iterable[Finding], fixes: Sequence[Fix]) -> None:
    """Write the pass into each finding that it repaired: the same defect at the same node, or at the same line."""
    for finding in findings:
        for name, repaired, site in fixes:
            same_line = site.place is not None and (site.place.file, site.place.line) == (finding.file, finding.line)
            if finding.name in repaired and (same_line or site.node == finding.node):
                finding.fixed_by = name
                break


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
