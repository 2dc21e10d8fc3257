"""What the audit has to say: findings and the places they point to. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec


class Severity(StrEnum):
    """How much a finding matters for the target it was found for."""

    ERROR = "error"  # the deployed policy would be wrong, or there would be none
    WARNING = "warning"  # it may be wrong on some inputs, or under some option
    NOTE = "note"  # worth knowing; nothing to do

    @property
    def rank(self) -> int:
        """0 for a note, 2 for an error."""
        return ("note", "warning", "error").index(self.value)


class Place(msgspec.Struct, frozen=True, order=True):
    """A place in the user's own source. `line` counts from 1, `column` from 0; `via` is the library line it reaches."""

    file: str
    line: int
    column: int | None = None
    end_column: int | None = None
    via: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Evidence(msgspec.Struct, frozen=True):
    """The fact a finding rests on: the `rule`, its `source` (repository, path and commit, or installed package)."""

    rule: str
    source: str
    date: str | None = None


class Finding(msgspec.Struct, kw_only=True):
    """One thing the audit has to say. `fixed_by` names the pass that repaired it; a repaired finding blocks nothing.
    `fixable_by` is the pass that a rewrite would repair it with."""

    code: str
    name: str
    severity: Severity
    message: str
    target: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    end_column: int | None = None
    via: str | None = None
    node: str | None = None
    evidence: Evidence | None = None
    remedy: str = ""
    fixed_by: str | None = None
    fixable_by: str | None = None
    count: int = 1

    @property
    def place(self) -> Place | None:
        """Where the finding points to, if it points anywhere."""
        if self.file is None or self.line is None:
            return None
        return Place(self.file, self.line, self.column, self.end_column, self.via)

    @property
    def blocks(self) -> bool:
        """Whether the policy is unfit for the target because of this finding."""
        return self.severity is Severity.ERROR and self.fixed_by is None

    def reaches(self, threshold: Severity | None) -> bool:
        """Whether an unrepaired finding is at or above `threshold` (None: never)."""
        return threshold is not None and self.fixed_by is None and self.severity.rank >= threshold.rank


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """One finding per line, defect and target, with a count; the most severe first, then in source order."""
    merged: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        where = (finding.file, finding.line) if finding.line is not None else (finding.message,)
        key = (finding.name, finding.target, finding.fixed_by, *where)
        known = merged.get(key)
        if known is None:
            merged[key] = msgspec.structs.replace(finding)
        else:
            known.count += finding.count
            if finding.severity.rank > known.severity.rank:
                known.severity, known.message = finding.severity, finding.message
    return sorted(
        merged.values(),
        key=lambda f: (f.fixed_by is not None, -f.severity.rank, f.file or "", f.line or 0, f.code, f.message),
    )


def blocking(findings: Sequence[Finding], target: str) -> list[Finding]:
    """The findings that make the policy unfit for the target."""
    return [f for f in findings if f.blocks and f.target in (None, target)]


def refusal(findings: Sequence[Finding], target: str) -> str:
    """One sentence: unfit, by how many errors, on which lines."""
    errors = blocking(findings, target)
    lines = sorted({f"line {f.line}" for f in errors if f.line is not None}, key=lambda s: int(s.split()[1]))
    count = f"{len(errors)} error{'' if len(errors) == 1 else 's'}"
    return f"not fit for {target}: {count}" + (f" ({', '.join(lines[:6])})" if lines else "")
