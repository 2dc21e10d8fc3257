"""Importing and running what the user wrote, so that whatever it raises becomes one sentence with the user's line."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import linecache
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

from graphaudit.errors import GraphAuditError, PolicyError
from graphaudit.graphs.places import is_engine, place_of
from graphaudit.text import one_line, shown_path


def is_users(value: Any) -> bool:
    """Whether `value` is an object of a class of the user's, or of a library's above torch."""
    module = sys.modules.get(type(value).__module__)
    file = getattr(module, "__file__", None)
    return hasattr(value, "__dict__") and not isinstance(value, Enum) and file is not None and not is_engine(file)


@contextmanager
def user_code(what: str, remedy: str = "", folder: Path | None = None) -> Iterator[None]:
    """Run the body with `folder` on `sys.path`; PolicyError `<what> raised …` if the user's code in it raises."""
    try:
        with import_path(folder):
            yield
    except GraphAuditError:
        raise
    except (Exception, SystemExit) as error:  # it is the user's code: anything may come
        where, line = user_line(error)
        message = f"{what} raised {describe(error)}{where}"
        raise PolicyError(f"{message}: {line}" if line else message, remedy) from error


@contextmanager
def import_path(folder: Path | None) -> Iterator[None]:
    """`folder` first on `sys.path`, as `python file.py` has it."""
    if folder is None:
        yield
        return
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        # The user's code may have changed sys.path itself.
        if entry in sys.path:
            sys.path.remove(entry)


def import_file(file: Path) -> ModuleType:
    """Run a Python file as a module of its own, registered in `sys.modules` (dataclasses and pickling look there)."""
    name = f"graphaudit_policy_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PolicyError(f"{shown_path(file)} is not a Python file", "Give a file that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        with user_code(f"importing {shown_path(file)}", folder=file.parent):
            spec.loader.exec_module(module)
    except PolicyError:
        sys.modules.pop(name, None)
        if before is not None:
            sys.modules[name] = before
        raise
    return module


def import_dotted(name: str) -> ModuleType:
    """Import `package.module`, with the working folder on `sys.path` as `python -m` has it."""
    with import_path(Path.cwd()):
        try:
            found = importlib.util.find_spec(name)
        except (ModuleNotFoundError, ValueError):
            found = None
        except (Exception, SystemExit) as error:  # the parent package's own code
            where, _ = user_line(error)
            raise PolicyError(f"importing the package of {name} raised {describe(error)}{where}") from error
    if found is None:
        raise PolicyError(
            f"there is no module named {name!r} here",
            "Give path/to/file.py:NAME, or run from the folder (or environment) that holds the package.",
        )
    with user_code(f"importing {name}", folder=Path.cwd()):
        return importlib.import_module(name)


def describe(error: BaseException) -> str:
    """`ValueError: message` on one line."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def user_line(error: BaseException) -> tuple[str, str]:
    """(` at walker.py:12`, the text of that line) for the user's innermost line in the traceback; empty without one."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f" at {shown_path(error.filename)}:{error.lineno}", one_line((error.text or "").strip(), 100)
    frames = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]
    place = place_of(frames)
    if place is None:
        return "", ""
    text = linecache.getline(place.file, place.line).strip()
    return f" at {shown_path(os.path.realpath(place.file))}:{place.line}", one_line(text, 100)
