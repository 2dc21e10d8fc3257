"""Findings as a compiler prints them: what, where with the user's own line, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from graphaudit.findings import Evidence, Finding, Severity
from graphaudit.report.layout import hanging, joined, text
from graphaudit.report.source import excerpt
from graphaudit.text import counted, shown_path

STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold cyan"}
_GUTTER = "blue"
_FIXED_IN_FULL = 4  # more repaired findings than this are shown on one line each
_NOTES_SHOWN = 8


@dataclass(frozen=True)
class _Group:
    """Findings that differ in their target and its evidence alone."""

    finding: Finding
    targets: tuple[str, ...]
    evidence: tuple[Evidence, ...]


def diagnostics(console: Console, findings: Sequence[Finding], passes: Iterable[str], verbose: bool) -> Iterator[Text]:
    """Errors and warnings in full, then the repaired ones and the notes, condensed where they are many."""
    groups = _grouped(findings)
    ran = set(passes)
    notes = [g for g in groups if g.finding.severity is Severity.NOTE and not verbose]
    fixed = [g for g in groups if g.finding.fixed_by is not None and g not in notes]
    condensed = fixed if len(fixed) > _FIXED_IN_FULL and not verbose else []
    for group in groups:
        if group not in notes and group not in condensed:
            yield from _in_full(console, group, ran)
            yield Text(end="")
    for group in condensed:
        yield from _fixed_line(console, group)
    if condensed:
        yield Text(end="")
    yield from _notes(console, notes)


def tally(findings: Sequence[Finding]) -> str:
    """`2 errors, 1 warning, 5 notes; 3 fixed`, counting lines of source, not repetitions."""
    open_ = [f for f in findings if f.fixed_by is None]
    parts = [
        counted(number, severity.value)
        for severity in (Severity.ERROR, Severity.WARNING, Severity.NOTE)
        if (number := sum(f.severity is severity for f in open_))
    ]
    fixed = len(findings) - len(open_)
    return "; ".join([", ".join(parts)] * bool(parts) + [f"{fixed} fixed"] * bool(fixed)) or "no findings"


def _grouped(findings: Sequence[Finding]) -> list[_Group]:
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for f in findings:
        key = (f.code, f.name, f.severity, f.message, f.file, f.line, f.fixed_by)
        groups.setdefault(key, []).append(f)
    return [
        _Group(
            fs[0],
            targets=tuple(dict.fromkeys(f.target for f in fs if f.target)),
            evidence=tuple(dict.fromkeys(f.evidence for f in fs if f.evidence)),
        )
        for fs in groups.values()
    ]


def _in_full(console: Console, group: _Group, ran: set[str]) -> Iterator[Text]:
    f = group.finding
    style = STYLES[f.severity]
    head = joined(text(f"{f.severity.value}[{f.code}] {f.name}", style), Text(": ", "bold"))
    yield from hanging(console, head, text(f.message + _times(f), "bold"), indent=4)
    place = f.place
    gutter = len(str(place.line)) if place else 1
    if place:
        yield joined(Text(" " * gutter + "--> ", _GUTTER), text(f"{shown_path(place.file)}:{place.line}"))
        yield from _source(console, f, gutter, style)
    elif f.file or f.node:
        at = shown_path(f.file) if f.file else f"node {f.node}"
        yield joined(Text(" " * gutter + "--> ", _GUTTER), text(at))
    for label, value in _remarks(group, ran):
        mark = joined(Text(" " * (gutter + 1) + "= ", _GUTTER), text(label, "bold"))
        yield from hanging(console, mark, text(value), indent=gutter + 3 + (len(label) if label.endswith(" ") else 2))


def _source(console: Console, f: Finding, gutter: int, style: str) -> Iterator[Text]:
    place = f.place
    shown = excerpt(place, console.width - gutter - 3) if place else None
    if place is None or shown is None:
        return
    blank = Text(" " * gutter + " |", _GUTTER)
    yield blank
    yield joined(Text(f"{place.line} | ", _GUTTER), Text(shown.text))
    yield joined(blank, Text(" " + " " * shown.start), Text("^" * shown.length, style))


def _in_the_source(f: Finding) -> str:
    return f"; in the source: {f.remedy[0].lower()}{f.remedy[1:]}" if f.remedy else ""


def _remarks(group: _Group, ran: set[str]) -> Iterator[tuple[str, str]]:
    f = group.finding
    if group.targets:
        yield "target  ", ", ".join(group.targets)
    if f.via:
        yield "via     ", f.via
    for evidence in group.evidence:
        dated = f" ({evidence.date})" if evidence.date else ""
        yield "source  ", f"{evidence.rule}: {evidence.source}{dated}"
    if f.fixed_by:
        below = " (below)" if f.fixed_by in ran else ""
        yield "fixed by ", f"{f.fixed_by}{below}{_in_the_source(f)}"
    elif f.fixable_by:
        yield "help: ", f"`graphaudit rewrite` has a pass for it, {f.fixable_by}{_in_the_source(f)}"
    elif f.remedy:
        yield "help: ", f.remedy


def _fixed_line(console: Console, group: _Group) -> Iterator[Text]:
    f = group.finding
    head = joined(text(f"fixed[{f.code}]", "bold green"), Text(" "))
    yield from hanging(console, head, text(f"{f.name}{_times(f)} at {_where(f)}, by {f.fixed_by}"), indent=4)


def _notes(console: Console, notes: Sequence[_Group]) -> Iterator[Text]:
    """One line for each kind of note, with every place."""
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for group in notes:
        kinds.setdefault((group.finding.code, group.finding.name), []).append(group.finding)
    for (code, name), found in list(kinds.items())[:_NOTES_SHOWN]:
        messages = list(dict.fromkeys(f.message for f in found))
        more = f" (and {counted(len(messages) - 1, 'other')})" if len(messages) > 1 else ""
        head = joined(text(f"note[{code}]", STYLES[Severity.NOTE]), text(f" {name}"))
        yield from hanging(console, head, text(f": {messages[0]}{more}{_places(found)}"), indent=4)
    hidden = len(kinds) - _NOTES_SHOWN
    if hidden > 0:
        yield Text(f"and {counted(hidden, 'more kind')} of notes (--verbose shows all)", "dim", end="")
    if kinds:
        yield Text(end="")


def _places(found: Sequence[Finding], limit: int = 6) -> str:
    """`  walker.py:57, 61, model.py:3`."""
    lines: dict[str, list[int]] = {}
    for f in found:
        if f.file and f.line is not None and f.line not in lines.setdefault(f.file, []):
            lines[f.file].append(f.line)
    parts = [f"{shown_path(file)}:{', '.join(map(str, sorted(at)[:limit]))}" for file, at in lines.items()]
    return f"  {', '.join(parts)}" if parts else ""


def _where(f: Finding) -> str:
    if f.file:
        return f"{shown_path(f.file)}:{f.line}" if f.line is not None else shown_path(f.file)
    return f"node {f.node}" if f.node else "the graph"


def _times(f: Finding) -> str:
    return f" (×{f.count})" if f.count > 1 else ""
