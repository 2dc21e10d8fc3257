"""What is going on, on standard error, while somebody is watching."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str], None]


@contextmanager
def progress() -> Iterator[Progress | None]:
    """A callback that shows its message as the current step; None when standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    from graphaudit.report.layout import text

    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    with console.status(text("loading")) as status:
        yield lambda message: status.update(text(message))
