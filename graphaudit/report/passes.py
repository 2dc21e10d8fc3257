"""One row per pass: what it changed, what the check says, the worst difference, the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from graphaudit.report.layout import columns, hanging, print_lines, text
from graphaudit.results import LeftAlone, PassRow
from graphaudit.text import counted, shown_path

_TITLES = ("pass", "changed", "verdict", "worst |Δ|", "time")
_DROPPED_FIRST = ("time", "changed")  # where the terminal is narrow
_LEFT_SHOWN = 3


def pass_rows(console: Console, rows: Sequence[PassRow], verbose: bool) -> Iterator[Text]:
    """The table of passes that did something or left something alone; the others are counted (all if `verbose`)."""
    shown = [row for row in rows if verbose or row.changed or row.rolled_back or row.left or row.verdict is not None]
    table = _table(console, shown) if shown else []
    yield from table[:1]
    for row, line in zip(shown, table[1:], strict=True):
        yield line
        yield from _remarks(console, row, verbose)
    idle = len(rows) - len(shown)
    if idle:
        others = "other pass" if shown else "pass"
        yield Text(f"{counted(idle, others, others + 'es')} had nothing to do", "dim")


def print_times(rows: Sequence[PassRow], console: Console) -> None:
    """Where the time went: rewriting and checking of each step, the longest first, with its share of all."""
    total = sum(row.seconds for row in rows)
    titles = [Text(title, "bold") for title in ("pass", "rewriting", "checking", "share")]
    cells = []
    for row in sorted(rows, key=lambda r: -r.seconds):
        checking = row.verdict.seconds if row.verdict else 0.0
        share = row.seconds / total if total else 0.0
        said = (row.name, duration(row.seconds - checking), duration(checking), f"{share:.0%}")
        cells.append([text(word) for word in said])
    print_lines(console, [*columns([titles, *cells]), text(f"{duration(total)} in all")])


def difference(value: float) -> str:
    """`2.4e-07`; `0` for none at all."""
    return f"{value:.1e}" if value else "0"


def duration(seconds: float) -> str:
    """`31 ms`, `2.4 s`, `3 min 20 s`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def _table(console: Console, rows: Sequence[PassRow]) -> list[Text]:
    titles = list(_TITLES)
    dropped = list(_DROPPED_FIRST)
    while True:
        cells = [[Text(t, "bold") for t in titles], *([_cell(row, t) for t in titles] for row in rows)]
        lines = columns(cells)
        if not dropped or max(line.cell_len for line in lines) <= console.width:
            break
        titles.remove(dropped.pop(0))
    for line in lines:
        line.truncate(console.width, overflow="ellipsis")
    return lines


def _cell(row: PassRow, title: str) -> Text:
    if title == "pass":
        return text(row.name)
    if title == "changed":
        # Capture and export are steps to check, not rewrites: they have no nodes to count.
        return text(counted(row.changed, "node") if row.changed else "" if row.verdict else "nothing")
    if title == "time":
        return text(duration(row.seconds))
    if title == "worst |Δ|":
        return text(difference(row.verdict.worst_abs) if row.verdict else "")
    if row.verdict is None:
        return text("rolled back" if row.rolled_back else "", "red")
    if row.rolled_back or not row.verdict.holds:
        return text(f"{row.verdict.claim.value}{', rolled back' if row.rolled_back else ''}", "bold red")
    return text(row.verdict.claim.value, "green")


def _remarks(console: Console, row: PassRow, verbose: bool) -> Iterator[Text]:
    verdict = row.verdict
    if verdict is not None and verdict.note:
        yield from hanging(console, Text("  "), text(verdict.note, "dim"), indent=4)
    elif verdict is not None and not verdict.holds:
        at = f" at {verdict.worst_output}" if verdict.worst_output else ""
        on = f" on {verdict.worst_input}" if verdict.worst_input else ""
        message = f"|Δ| {verdict.worst_abs:.1e}{at}{on}, tolerance {verdict.tolerance:.1e}"
        yield from hanging(console, Text("  "), text(message, "dim"), indent=4)
    if verdict is not None and verdict.proof is not None and not row.rolled_back:
        yield from hanging(console, Text("  "), text(verdict.proof.sentence, "dim"), indent=4)
    for made in row.conversions if verbose else ():
        if made.way:
            where = f"{shown_path(made.place.file)}:{made.place.line}" if made.place else f"node {made.node}"
            failed = f", after {'; '.join(made.tried)}" if made.tried else ""
            said = f"{where}: {made.operator}, by {made.way}{failed}"
            yield from hanging(console, Text("  made legal: ", "dim"), text(said, "dim"), indent=4)
    reasons = Counter(_reason(left) for left in row.left)
    limit = len(reasons) if verbose else _LEFT_SHOWN
    for reason, count in list(reasons.items())[:limit]:
        times = f" (×{count})" if count > 1 else ""
        yield from hanging(console, Text("  left alone: ", "dim"), text(f"{reason}{times}", "dim"), indent=4)
    if len(reasons) > limit:
        yield Text(f"  and {counted(len(reasons) - limit, 'more reason')} (--verbose shows all)", "dim")


def _reason(left: LeftAlone) -> str:
    where = f"{shown_path(left.place.file)}:{left.place.line}" if left.place else f"node {left.node}"
    return f"{where}: {left.reason}"
