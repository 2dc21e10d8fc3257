"""What can be watched while passes run: the graph after one of them, and before and after each."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.listing import difference, listing
from graphaudit.graphs.onnx_view import view_model
from graphaudit.graphs.program import Program
from graphaudit.graphs.view import GraphView
from graphaudit.results import PassRow
from graphaudit.rewrite.base import Pass, PassResult

ALL = "all"


def view(artifact: Any) -> GraphView:
    """The read-only view of either kind of graph."""
    return view_program(artifact) if isinstance(artifact, Program) else view_model(artifact)


class PrintAfter:
    """Hands the graph after the passes `names` (`all`: after each that changed something) to `write`, as text."""

    def __init__(self, names: Collection[str], write: Callable[[str], None]) -> None:
        self._names, self._write = names, write

    def after(self, step: Pass[Any], before: Any, result: PassResult[Any] | None, row: PassRow, /) -> None:
        """Print what holds after the pass: the graph from before it, where it was rolled back."""
        if step.name not in self._names and not (ALL in self._names and row.changed):
            return
        kept = result is not None and result.changed and row.verdict is not None and row.verdict.holds
        shown = result.artifact if kept and result is not None else before
        remark = "" if kept else " (rolled back)" if row.changed or row.verdict is not None else " (nothing changed)"
        self._write(f"graph after {step.name}{remark}\n{listing(view(shown))}")


class DumpGraphs:
    """Writes the graph before and after each pass that changed something, and the difference, to `folder`.

    `03_fold_batch_norm.before.txt`, `.after.txt` and `.diff.txt`; the number is that of the pass among those that ran.
    A pass that is rolled back is dumped as well. Raises OSError.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0

    def after(self, step: Pass[Any], before: Any, result: PassResult[Any] | None, _: PassRow, /) -> None:
        """Write the three files."""
        self._count += 1
        if result is None or not result.changed:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        old, new = view(before), view(result.artifact)
        texts = {"before": listing(old), "after": listing(new), "diff": difference(old, new)}
        for kind, text in texts.items():
            file = self._folder / f"{self._count:02}_{step.name}.{kind}.txt"
            file.write_text(text, encoding="utf-8")
