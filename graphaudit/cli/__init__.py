"""The command line: parses, calls, prints. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 (yes), 1 (no) or 2 (the tool could not do its work)."""
    from graphaudit.cli.run import run

    return run(list(sys.argv[1:] if argv is None else argv))
