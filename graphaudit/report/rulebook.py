"""What the rulebook says: of one operator, of all of them, and of what changed in a target file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from graphaudit.report.layout import columns, hanging, joined, print_lines, text
from graphaudit.report.operators import CELLS, STYLES
from graphaudit.rulebook.atc import AtcAdvice
from graphaudit.rulebook.compare import Change
from graphaudit.rulebook.query import Condition, OpAnswer

_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}
_VALUE = 60  # characters of a value that are shown of a change


def print_answers(answers: Sequence[OpAnswer], console: Console) -> None:
    """A paragraph for each target: the answer, why, on what engine, under which conditions, from which sources."""
    for index, answer in enumerate(answers):
        if index:
            print_lines(console, [Text()])
        print_lines(console, _paragraph(answer, console))


def print_advice(advice: AtcAdvice, console: Console) -> None:
    """The command on a line of its own, to be copied, and the notes below it."""
    print_lines(console, [text(advice.command, "bold"), Text()])
    for note in advice.notes:
        print_lines(console, hanging(console, Text("- "), text(note)))


def print_changes(changes: Sequence[Change], console: Console) -> None:
    """A line for each fact that came (+), went (-) or changed (~)."""
    for change in changes:
        sign, style = _SIGNS[change.kind]
        values = {"added": _short(change.new), "removed": _short(change.old)}
        shown = values.get(change.kind) or f"{_short(change.old)} → {_short(change.new)}"
        print_lines(console, hanging(console, text(f"{sign} {change.where}  ", style), text(shown), indent=4))
    if not changes:
        print_lines(console, [text("no fact differs")])


def markdown_matrix(rows: Sequence[Sequence[OpAnswer]]) -> str:
    """A table in Markdown: an operator in each row, a target in each column, and what the words in it mean."""
    names = [f"{a.target} ({a.opset})" if a.opset else a.target for a in rows[0]]
    lines = [f"| operator | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    lines += [f"| {row[0].op} | {' | '.join(CELLS[a.support] for a in row)} |" for row in rows]
    totals = [_totals([row[i] for row in rows]) for i in range(len(names))]
    lines += [f"| **yes / limits / no / ?** | {' | '.join(totals)} |", ""]
    lines += [
        "Each cell is the answer for a node with the required inputs alone, in float32 where the operator takes it"
        + (", at the opset" if rows[0][0].opset else "."),
        ("in the heading. " if rows[0][0].opset else "")
        + "limits: taken with limits, or under conditions; ?: not known.",
        "`graphaudit rulebook show OPERATOR` gives the reasons and the sources.",
    ]
    return "\n".join(lines) + "\n"


def _paragraph(answer: OpAnswer, console: Console) -> Iterator[Text]:
    asked = f"  {answer.op}" + (f" at opset {answer.opset}" if answer.opset else "")
    asked += f", {', '.join(answer.dtypes)}" if answer.dtypes else ""
    support = text(answer.support.value, STYLES[answer.support])
    engine = text(f" on the {answer.engine}" if answer.engine else "")
    yield joined(text(answer.target, "bold"), text(f"{asked}: "), support, engine)
    facts = [("because", reason) for reason in answer.reasons]
    facts += [("opsets", answer.opsets)] if answer.opsets else []
    facts += [("torch", answer.torch)] if answer.torch else []
    facts += [("becomes", ", ".join(answer.becomes))] if answer.becomes else []
    facts += [(engine, ", ".join(dtypes)) for engine, dtypes in answer.engines.items()]
    facts += [("limit", _condition(c)) for c in answer.conditions if c.rule not in answer.reasons]
    if answer.evidence is not None:
        read = f" (read {answer.evidence.date})" if answer.evidence.date else ""
        facts.append(("source", f"{answer.evidence.source}{read}"))
    if facts:
        heads = columns([[text(f"  {label}", "dim"), Text()] for label, _ in facts], gap=1)
        width = max(head.cell_len for head in heads) + 2
        for (_, value), head in zip(facts, heads, strict=True):
            head.pad_right(width - head.cell_len)
            yield from hanging(console, head, text(value))


def _condition(condition: Condition) -> str:
    when = f", {condition.when}" if condition.when else ""
    return f"{condition.rule}{when} ({condition.effect}; {condition.source})"


def _totals(answers: Sequence[OpAnswer]) -> str:
    return " / ".join(str(sum(a.support is support for a in answers)) for support in CELLS)


def _short(value: Any) -> str:
    line = str(value)
    return line if len(line) <= _VALUE else line[: _VALUE - 1] + "…"
