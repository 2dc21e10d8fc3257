"""What a bisection found: the steps that held, and each culprit with its nodes, lines, inputs and reproducer."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from graphaudit.report.layout import hanging, joined, print_lines, text
from graphaudit.results import Bisection, Culprit, NodeAt
from graphaudit.text import counted, shown_path

_INPUTS_SHOWN = 4


def print_bisection(found: Bisection, console: Console) -> None:
    """Write it to `console`."""
    print_lines(console, _lines(found, console))


def _lines(found: Bisection, console: Console) -> Iterator[Text]:
    for culprit in found.culprits:
        yield from _culprit(culprit, console)
        yield Text()
    style = "bold red" if found.culprits or not found.inputs else "bold green"
    yield from hanging(console, Text(), text(found.statement, style), indent=4)


def _culprit(culprit: Culprit, console: Console) -> Iterator[Text]:
    where = ", ".join(map(_node, culprit.nodes)) or "the step as a whole"
    yield joined(text(culprit.step, "bold red"), text(f"   {where}"))
    if culprit.inputs:
        more = len(culprit.inputs) - _INPUTS_SHOWN
        shown = ", ".join(culprit.inputs[:_INPUTS_SHOWN]) + (f" and {more} more" if more > 0 else "")
        on = f"on {counted(len(culprit.inputs), 'input')}: {shown}"
        yield from hanging(console, Text("  "), text(on), indent=4)
    if culprit.message:
        yield from hanging(console, Text("  "), text(culprit.message), indent=4)
    if culprit.reproducer:
        yield joined(Text("  = reproducer: "), text(shown_path(culprit.reproducer)))
    elif culprit.note:
        yield from hanging(console, Text("  "), text(f"no reproducer: {culprit.note}", "dim"), indent=4)


def _node(node: NodeAt) -> str:
    return f"{node.node} ({shown_path(node.place.file)}:{node.place.line})" if node.place else node.node
