"""From stack traces to the user's own source line. Imports nothing heavy."""

from __future__ import annotations

import re
import site
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType

from graphaudit.findings import Place

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"
_ENGINE_LIBRARIES = ("torch", "onnx", "onnxscript", "numpy", "malt")


@cache
def _library_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    roots = {paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"], *site.getsitepackages()}
    return tuple(str(Path(r).resolve()) + "/" for r in roots)


@cache
def is_library(file: str) -> bool:
    """Whether `file` belongs to the standard library, an installed package or graphaudit, not to the user."""
    if file.startswith("<"):
        return True
    resolved = str(Path(file).resolve())
    return resolved.startswith((_PACKAGE, *_library_roots()))


@cache
def is_engine(file: str) -> bool:
    """Whether `file` belongs to what captures and runs (torch, numpy, the standard library): never a place to show."""
    if file.startswith("<"):
        return True
    resolved = str(Path(file).resolve())
    if resolved.startswith(_PACKAGE):
        return True
    parts = Path(resolved).parts
    if "site-packages" in parts:
        return parts[parts.index("site-packages") + 1] in _ENGINE_LIBRARIES
    return resolved.startswith(_library_roots())


def place_of(frames: Iterable[tuple[str, int]]) -> Place | None:
    """The user's own line among `frames` (outermost first): the innermost one outside every library.

    Where the innermost frame belongs to a library above torch (say, stable_baselines3), `via` names its line. Where
    the policy itself is an installed package, that package's line is the place.
    """
    own: tuple[str, int] | None = None
    reached: tuple[str, int] | None = None
    for file, line in frames:
        if is_engine(file):
            continue
        reached = (file, line)
        if not is_library(file):
            own = (file, line)
    if own is None:
        return Place(*reached) if reached else None
    via = f"{_short(reached[0])}:{reached[1]}" if reached and reached != own else None
    return Place(*own, via=via)


def place_in_trace(trace: str | None) -> Place | None:
    """The user's own line in a stack trace as torch.fx and the ONNX exporter write it."""
    return place_of((file, int(line)) for file, line in _FRAME.findall(trace or ""))


def _short(file: str) -> str:
    parts = Path(file).parts
    return str(Path(*parts[parts.index("site-packages") + 1 :])) if "site-packages" in parts else file


def code_in(code: CodeType) -> Iterator[CodeType]:
    """A code object, and those of the functions inside it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from code_in(inner)
