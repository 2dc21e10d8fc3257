"""What targets take of a policy: an operator in each row and a target in each column; how it falls into parts."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from graphaudit.report.layout import columns, hanging, text
from graphaudit.results import Islands, Report
from graphaudit.rulebook.target import Support
from graphaudit.text import counted

STYLES = {
    Support.SUPPORTED: "bold green",
    Support.LIMITED: "bold yellow",
    Support.UNSUPPORTED: "bold red",
    Support.UNKNOWN: "bold magenta",
}
CELLS = {Support.SUPPORTED: "yes", Support.LIMITED: "limits", Support.UNSUPPORTED: "no", Support.UNKNOWN: "?"}


def operator_table(report: Report) -> list[Text]:
    """The table, where there is more than one target to compare."""
    if len(report.targets) < 2 or not report.operators:
        return []
    rows = [[text(title, "bold") for title in ("operator", "nodes", *report.targets)]]
    for row in report.operators:
        cells = [_cell(row.answers.get(target)) for target in report.targets]
        rows.append([text(row.op), text(str(row.count)), *cells])
    return columns(rows)


def island_lines(report: Report, console: Console) -> Iterator[Text]:
    """A sentence for each target that does not run the whole graph in one go."""
    for target, islands in report.islands.items():
        if islands.share < 1 or islands.departures:
            yield from hanging(console, text(f"{target}: ", "bold"), text(_sentence(islands)), indent=4)


def _cell(answer: str | None) -> Text:
    return text(CELLS[Support(answer)], STYLES[Support(answer)]) if answer is not None else text("-", "dim")


def _sentence(islands: Islands) -> str:
    parts = (
        f"{counted(islands.islands, 'part')} on it, with {islands.share:.0%} of {counted(islands.nodes, 'node')} "
        f"and {islands.operations_share:.0%} of {islands.operations:,} floating-point operations; "
        f"execution leaves it {counted(islands.departures, 'time')}"
    )
    if islands.worst is None:
        return parts
    return f"{parts}; {islands.worst} costs the most crossings ({islands.worst_crossings} of {islands.crossings})"
