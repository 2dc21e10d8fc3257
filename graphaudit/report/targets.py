"""The targets there are, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from graphaudit.report.layout import columns, hanging, print_lines, text
from graphaudit.rulebook.target import Target


def print_targets(targets: Sequence[Target], console: Console) -> None:
    """Name, opset, dtype of the computation and date of the facts in a row; what it is and its sources below."""
    titles = [Text(title, "bold") for title in ("target", "opset", "computes in", "facts of")]
    rows = [
        [
            text(t.name, "bold"),
            text(f"{t.opset} (≤ {t.max_opset})" if t.graph == "onnx" else "ATen"),
            text(t.compute_dtype),
            text(t.date or "as installed"),
        ]
        for t in targets
    ]
    table = columns([titles, *rows])
    print_lines(console, table[:1])
    for target, line in zip(targets, table[1:], strict=True):
        print_lines(console, [line, *hanging(console, Text("  "), text(target.summary))])
        print_lines(console, hanging(console, Text("  "), text(target.facts, "dim")))
