"""Small layout: hanging indents and columns, for terminals of any width. Everything is plain `Text`, never markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from graphaudit.text import printable


def text(value: str, style: str = "") -> Text:
    """`value` as it is, with what could steer a terminal escaped."""
    return Text(printable(value), style=style, end="")


def joined(*parts: Text) -> Text:
    """The parts in a row, each in its own style. (`a + b` of rich gives all of it the style of `a`.)"""
    line = Text(end="")
    for part in parts:
        line.append_text(part)
    return line


def print_lines(console: Console, lines: Iterable[Text]) -> None:
    """Write lines as they are: a line that is still too long is left to the terminal to wrap."""
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False, emoji=False, end="\n")


def hanging(console: Console, head: Text, body: Text, indent: int | None = None) -> list[Text]:
    """`head` and `body` on one line, wrapped at the console's width; later lines are indented (default: below body)."""
    indent = head.cell_len if indent is None else indent
    if indent > console.width - 20:
        indent = 4
    first = max(console.width - head.cell_len, 10)
    if body.cell_len <= first and "\n" not in body.plain:
        return [_line(head, body)]
    lines = list(body.wrap(console, first, overflow="fold"))
    rest = body[len(lines[0]) :]
    rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :]
    result = [_line(head, lines[0])]
    for line in rest.wrap(console, max(console.width - indent, 10), overflow="fold"):
        result.append(_line(Text(" " * indent), line))
    return result


def columns(rows: Sequence[Sequence[Text]], gap: int = 3) -> list[Text]:
    """Rows with aligned cells, `gap` blanks apart."""
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        line = Text(end="")
        for cell, width in zip(row, widths, strict=True):
            padding = " " * (width - cell.cell_len)
            line.append_text(cell)
            line.append(padding + " " * gap)
        line.rstrip()
        lines.append(line)
    return lines


def _line(head: Text, body: Text) -> Text:
    line = joined(head, body)
    line.rstrip()
    return line
