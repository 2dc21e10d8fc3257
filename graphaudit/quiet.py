"""Keeps the chatter of libraries off standard output and standard error. Imports nothing heavy."""

from __future__ import annotations

import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout

_LOGGERS = ("torch", "torch.onnx", "onnxscript", "onnx_ir", "onnxsim", "onnx_graphsurgeon")


@contextmanager
def quiet(*, native: bool = False) -> Iterator[None]:
    """Swallow prints, warnings and log records inside the block.

    `native` also swallows what C++ code writes to file descriptors 1 and 2; that is process-wide, so keep it short.
    """
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(_loggers_off())
        stack.enter_context(redirect_stdout(io.StringIO()))
        stack.enter_context(redirect_stderr(io.StringIO()))
        if native:
            stack.enter_context(_descriptors_off())
        yield


@contextmanager
def _loggers_off() -> Iterator[None]:
    """Raise the named loggers and all their children above CRITICAL (torch sets levels on the children)."""
    known = [n for n in logging.root.manager.loggerDict if n.split(".")[0] in _LOGGERS]
    loggers = [logging.getLogger(name) for name in {*known, *_LOGGERS}]
    levels = [(logger, logger.level, logger.disabled) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level, disabled in levels:
            logger.setLevel(level)
            logger.disabled = disabled


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
