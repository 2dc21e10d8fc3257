"""The passes there are: a table and the details of each, or a table in Markdown for the docs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from graphaudit.report.layout import columns, hanging, print_lines, text
from graphaudit.rewrite.catalogue import PassEntry


def print_catalogue(entries: Sequence[PassEntry], console: Console) -> None:
    """Number, name, level and claim in a row; what it does, fixes and needs, and its options below."""
    titles = [Text(title, "bold") for title in ("", "pass", "level", "claims")]
    rows = [[text(str(e.number)), text(e.name, "bold"), text(e.level), text(e.claims)] for e in entries]
    table = columns([titles, *rows])
    print_lines(console, table[:1])
    for entry, line in zip(entries, table[1:], strict=True):
        print_lines(console, [line])
        print_lines(console, hanging(console, Text("     "), text(entry.summary)))
        for label, said in _details(entry):
            print_lines(console, hanging(console, Text(f"     {label} ", "dim"), text(said, "dim"), indent=7))


def markdown_catalogue(entries: Sequence[PassEntry]) -> str:
    """A table in Markdown, one pass a row."""
    lines = ["| | pass | level | claims | fixes | needs | options |", "|---|---|---|---|---|---|---|"]
    for e in entries:
        options = ", ".join(f"`{o.name}={o.value}`" for o in e.options)
        cells = [str(e.number), f"`{e.name}`", e.level, e.claims, ", ".join(e.fixes), needs(e), options]
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def needs(entry: PassEntry) -> str:
    """What has to be before and after it, the properties that it requires, and the targets that it is for."""
    parts = [("after", entry.runs_after), ("before", entry.runs_before), ("requires", entry.requires)]
    without = " or ".join(name.replace("_", " ") for name in entry.only_without)
    said = [f"{label} {', '.join(names)}" for label, names in parts if names]
    return "; ".join(said + [f"only for targets without {without}"] * bool(without))


def _details(entry: PassEntry) -> Iterator[tuple[str, str]]:
    if entry.fixes:
        yield "fixes", ", ".join(entry.fixes)
    if needs(entry):
        yield "runs", needs(entry)
    if entry.ensures:
        yield "ensures", ", ".join(entry.ensures)
    for option in entry.options:
        yield "option", f"{option.name}={option.value} ({option.type})"
    if not entry.default:
        yield "runs", "only where --passes names it"
    if not entry.module.startswith("graphaudit."):
        yield "from", entry.module
