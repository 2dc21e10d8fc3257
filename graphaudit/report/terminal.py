"""A `Report` for people: header, diagnostics, one row per pass, one sentence that says what holds."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from graphaudit.report.diagnostics import diagnostics, tally
from graphaudit.report.layout import columns, hanging, joined, print_lines, text
from graphaudit.report.operators import island_lines, operator_table
from graphaudit.report.passes import pass_rows
from graphaudit.results import CaptureSummary, PolicySummary, Report
from graphaudit.text import counted, shown_path

_ALIGNED_NAME = 32  # longer names would push what stands in the second line too far away


def print_report(report: Report, console: Console, *, verbose: bool = False) -> None:
    """Write the report to `console`; colour and width are the console's. Nothing in it is read as markup."""
    print_lines(console, report_lines(report, console, verbose=verbose))


def report_lines(report: Report, console: Console, *, verbose: bool = False) -> Iterator[Text]:
    """The lines of the report, each at most as wide as the console where words allow it."""
    yield from _header(console, report)
    yield from _loops(console, report.capture)
    yield Text()
    # A certificate lists passes that changed something; a finding may name one of those.
    changed = [row.name for row in report.passes if row.changed and not row.rolled_back]
    yield from diagnostics(console, report.findings, changed, verbose)
    if report.passes:
        yield from pass_rows(console, report.passes, verbose)
        yield Text()
    for lines in (operator_table(report), [*island_lines(report, console)]):
        if lines:
            yield from (*lines, Text())
    if report.findings:
        yield text(tally(report.findings))
    yield from _closing(console, report)


def _header(console: Console, report: Report) -> Iterator[Text]:
    rows = [
        [Text("policy", "bold"), text(report.policy.name, "bold"), text(_numbers(report.policy))],
        [Text("capture", "bold"), text(report.capture.method or "failed"), text(_control_flow(report.capture))],
    ]
    lines = columns(rows)
    if max(line.cell_len for line in lines) <= console.width and rows[0][1].cell_len <= _ALIGNED_NAME:
        yield from lines
        return
    for label, name, details in rows:
        label.pad_right(10 - label.cell_len)
        line = joined(label, name, Text("   "), details)
        if line.cell_len <= console.width:
            line.rstrip()
            yield line
            continue
        yield from hanging(console, label, name)
        if details.plain:
            yield from hanging(console, Text(" " * 10), details)


def _numbers(policy: PolicySummary) -> str:
    numbers = [(policy.parameters, "parameter"), (policy.inputs, "input"), (policy.operators, "operator")]
    return " · ".join(counted(number, noun) for number, noun in numbers if number is not None)


def _control_flow(capture: CaptureSummary) -> str:
    if capture.method is None:
        return "no graph could be made"
    parts = [(capture.branches, "branch", "branches"), (capture.loops, "loop", "loops")]
    found = [counted(number, one, many) for number, one, many in parts if number]
    return f"{', '.join(found)} on tensors" if found else "no branches or loops on tensors"


def _loops(console: Console, capture: CaptureSummary) -> Iterator[Text]:
    """What became of each loop whose trip count is data, and why."""
    for choice in capture.choices:
        passes = f"{counted(choice.passes, 'masked pass', 'masked passes')}" if choice.passes is not None else "a loop"
        where = f"{shown_path(choice.place.file)}:{choice.place.line}" if choice.place else ""
        for_whom = f" for {', '.join(choice.targets)}" if len({c.targets for c in capture.choices}) > 1 else ""
        yield from hanging(console, Text("loop      ", "bold"), text(f"{where}   {passes}{for_whom}: {choice.why}"))


def _closing(console: Console, report: Report) -> Iterator[Text]:
    good = bool(report.fit) and all(report.fit.values()) and (report.command != "rewrite" or report.bundle is not None)
    style = "bold green" if good else "bold red"
    statement = report.statement or _fitness(report)
    head = text(f"{shown_path(report.bundle.rstrip('/'))}/   ", "bold") if report.bundle else Text()
    yield from hanging(console, head, text(statement, style), indent=4)


def _fitness(report: Report) -> str:
    fit = [target for target, yes in report.fit.items() if yes]
    unfit = [target for target, yes in report.fit.items() if not yes]
    parts = [f"fit for {', '.join(fit)}"] * bool(fit) + [f"not fit for {', '.join(unfit)}"] * bool(unfit)
    return f"{report.policy.name}: {'; '.join(parts) or 'no target was examined'}"
