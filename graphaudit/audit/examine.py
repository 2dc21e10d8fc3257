"""Runs every check over a subject, once for each target."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from graphaudit.audit.subject import Subject
from graphaudit.findings import Finding, merge
from graphaudit.registry import checks


def examine(*subjects: Subject, only: Collection[str] | None = None) -> list[Finding]:
    """The findings of all checks (or of those named `only`) over `subjects`, merged.

    What is said alike of every subject is said once, of no target in particular; the rest names its target.
    """
    said = [_examine(subject, only) for subject in subjects]
    shared = {key for key in said[0] if all(key in other for other in said)} if len(said) > 1 else set()
    findings = [f for key, f in said[0].items() if key in shared]
    for subject, found in zip(subjects, said, strict=True):
        for key, finding in found.items():
            if key not in shared:
                if len(subjects) > 1 and finding.target is None:
                    finding.target = subject.target
                findings.append(finding)
    return merge(findings)


def _examine(subject: Subject, only: Collection[str] | None) -> dict[bytes, Finding]:
    found: dict[bytes, Finding] = {}
    for check in (c for name, c in checks().items() if only is None or name in only):
        for finding in check().examine(subject):
            key = msgspec.json.encode(finding)
            if key in found:
                found[key].count += 1
            else:
                found[key] = finding
    return found
