"""Standard output carries the result and nothing else; whatever a policy or a library prints goes to standard error."""

from __future__ import annotations

import atexit
import io
import logging
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from graphaudit.report.progress import Progress

_LOG_WIDTH = 120  # columns of help and explanations, where nobody says how wide the output may be
_UNWRAPPED = 2**16  # columns: a finding or a verdict in a log is one line, for grep and for the viewer to wrap


@contextmanager
def working(*, debug: bool = False) -> Iterator[Progress | None]:
    """While a policy is loaded and run: standard output is standard error, libraries keep quiet unless `debug`.

    With `debug` the log of graphaudit goes to standard error too: among others, whatever torch.export says.
    """
    from graphaudit.report.progress import progress

    with _stdout_to_stderr(), warnings.catch_warnings(), _log(debug), progress() as callback:
        if not debug:
            warnings.simplefilter("ignore")
        yield callback
    # What a policy registered to run at exit may print too.
    atexit.register(_redirect_for_good)


def write_json(value: Any) -> None:
    """Write one JSON document to standard output."""
    from graphaudit.report.jsonout import encode

    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(encode(value))
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()


def console(*, prose: bool = False) -> Console:
    """Standard output for people: as wide as the terminal; in a log as wide as COLUMNS says.

    Without COLUMNS, a log gets `prose` at 120 columns and everything else unwrapped.
    """
    from rich.console import Console

    class Pipe(Console):
        """rich ends the process when the reader goes away; the exit status must still be the answer."""

        def on_broken_pipe(self) -> None:
            _drop_output()

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if "COLUMNS" in os.environ:
        width = None
    elif is_terminal():
        width = shutil.get_terminal_size().columns
    else:
        width = _LOG_WIDTH if prose else _UNWRAPPED
    return Pipe(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def _drop_output() -> None:
    """The reader of standard output went away (`| head`): what is left goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


@contextmanager
def _log(debug: bool) -> Iterator[None]:
    logger, handler = logging.getLogger("graphaudit"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("debug: %(name)s: %(message)s"))
    level = logger.level
    if debug:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """File descriptor 1 and `sys.stdout` point to standard error inside the block; C++ code writes to the former."""
    if sys.stdout is None:  # closed by the caller (`>&-`)
        yield
        return
    sys.stdout.flush()
    saved, stream = os.dup(1), sys.stdout
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        stream.flush()
        sys.stdout = stream
        os.dup2(saved, 1)
        os.close(saved)


def _redirect_for_good() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()
        os.dup2(2, 1)
        sys.stdout = sys.stderr
