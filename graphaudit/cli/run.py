"""Runs one command and turns whatever happens into an exit status and, at most, two lines on standard error."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from cyclopts import CycloptsError

from graphaudit.cli import streams
from graphaudit.cli.app import build_app
from graphaudit.errors import GraphAuditError
from graphaudit.text import one_line, printable

FAILED = 2


def run(argv: Sequence[str]) -> int:
    """The exit status: 0 yes, 1 no, 2 the tool could not do its work."""
    try:
        status = build_app()(argv, exit_on_error=False, print_error=False, result_action="return_value")
        return status or 0
    except KeyboardInterrupt:
        return _fail(argv, "interrupted", "Nothing was written.")
    except CycloptsError as error:
        return _fail(
            argv, one_line(str(error)), "`graphaudit --help` and `graphaudit COMMAND --help` say what there is."
        )
    except GraphAuditError as error:
        return _fail(argv, printable(error.message), printable(error.remedy), error)
    except OSError as error:
        where = f"{printable(str(error.filename))}: " if error.filename else ""
        return _fail(argv, f"{where}{error.strerror or one_line(str(error))}", "", error)
    except (Exception, SystemExit) as error:  # whatever else comes is our own mistake, and must be said to be
        what = one_line(f"{type(error).__name__}: {error}")
        remedy = "This is a bug in graphaudit: run again with --debug, and report it with the traceback."
        return _fail(argv, what, remedy, error)


def _fail(argv: Sequence[str], message: str, remedy: str, error: BaseException | None = None) -> int:
    if error is not None and "--debug" in argv:
        traceback.print_exception(error)
    if _wants_json(argv):
        streams.write_json({"error": {"message": message, "remedy": remedy}})
    _print_error("error", message)
    if remedy:
        _print_error(" help", remedy)
    return FAILED


def _print_error(label: str, line: str) -> None:
    if sys.stderr is None:
        return
    colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    start, end = ("\x1b[1;31m", "\x1b[0m") if colour else ("", "")
    line = line.replace("\n", " ")
    with suppress(OSError):  # nobody listens
        print(f"{start}{label}:{end} {line}", file=sys.stderr)


def _wants_json(argv: Sequence[str]) -> bool:
    """Whether the caller asked for JSON; known before (and even if not) the arguments can be parsed."""
    return "--format=json" in argv or any(a == "--format" and b == "json" for a, b in pairwise(argv))
