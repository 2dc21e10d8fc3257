"""Which finding was repaired by which pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphaudit.findings import Finding
from graphaudit.rewrite.pipeline import Fix


def mark_fixed(findings: Iterable[Finding], fixes: Sequence[Fix]) -> None:
    """Write the pass into each finding that it repaired: the same defect at the same node, or at the same line."""
    for finding in findings:
        for name, repaired, site in fixes:
            same_line = site.place is not None and (site.place.file, site.place.line) == (finding.file, finding.line)
            if finding.name in repaired and (same_line or site.node == finding.node):
                finding.fixed_by = name
                break
