"""Runs every check over a subject."""

from __future__ import annotations

import msgspec

from graphaudit.audit.subject import Subject
from graphaudit.findings import Finding, merge
from graphaudit.registry import checks


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
