"""Keeps the chatter of libraries off standard output and standard error. Imports nothing heavy."""

from __future__ import annotations

import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout


@contextmanager
def quiet(*, native: bool = False) -> Iterator[None]:
    """Swallow prints, warnings and log records inside the block.

    `native` also swallows what C++ code writes to file descriptors 1 and 2; that is process-wide, so keep it short.
    """
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(_logging_off())
        stack.enter_context(redirect_stdout(io.StringIO()))
        stack.enter_context(redirect_stderr(io.StringIO()))
        if native:
            stack.enter_context(_descriptors_off())
        yield


@contextmanager
def _logging_off() -> Iterator[None]:
    """No logger emits anything, whatever level torch sets on it. (Setting the levels of its some 300 loggers one by one
    takes 0.1 s, because each clears the caches of all.)"""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _descriptors_off() -> Iterator[None]:
    """Point file descriptors 1 and 2 at the null device."""
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            stream.flush()
    sink = os.open(os.devnull, os.O_WRONLY)
    saved = [(fd, os.dup(fd)) for fd in (1, 2)]
    try:
        for fd, _ in saved:
            os.dup2(sink, fd)
        yield
    finally:
        for fd, copy in saved:
            os.dup2(copy, fd)
            os.close(copy)
        os.close(sink)
