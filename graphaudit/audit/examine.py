"""Runs every check over a subject."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from graphaudit.audit.subject import Subject
from graphaudit.findings import Finding, merge
from graphaudit.registry import checks
from graphaudit.rewrite.base import Site


def examine(*subjects: Subject) -> list[Finding]:
    """The findings of all checks over `subjects`, merged; what is said twice alike is said once."""
    found: dict[bytes, Finding] = {}
    for subject in subjects:
        said: dict[bytes, Finding] = {}
        for check in checks().values():
            for finding in check().examine(subject):
                key = msgspec.json.encode(finding)
                if key in said:
                    said[key].count += 1
                else:
                    said[key] = finding
        for key, finding in said.items():
            found.setdefault(key, finding)
    return merge(found.values())


def mark_fixed(findings: Iterable[Finding], fixes: Sequence[tuple[str, tuple[str, ...], Site]]) -> None:
    """Write the pass into each finding that it repaired: the same defect at the same node, or at the same line."""
    for finding in findings:
        for name, repaired, site in fixes:
            same_line = site.place is not None and (site.place.file, site.place.line) == (finding.file, finding.line)
            if finding.name in repaired and (same_line or site.node == finding.node):
                finding.fixed_by = name
                break
