"""Iteration over tensors, and whether the number of rows may vary."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphaudit.findings import Place
from graphaudit.rules.checks._events import events
from graphaudit.rules.checks._sizes import Sizes, sizes
from graphaudit.rules.checks._source import functions

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject

_TIME = ("time", "step", "seq", "len", "horizon", "t")


@dataclass(frozen=True)
class Iteration:
    """A loop over the rows of a tensor, or over `range` of a size. `dimension` is its name if it may vary, or ``."""

    place: Place | None
    length: str
    dynamic: bool
    dimension: str = ""

    @property
    def over_batch(self) -> bool:
        """Whether the dimension that varies is a batch, rather than time."""
        name = self.dimension.lower()
        return bool(name) and not any(name == t or (len(t) > 1 and t in name) for t in _TIME)


def iterations(subject: Subject) -> Iterator[Iteration]:
    """Every loop over the rows of a tensor that was seen, and every `range` over a size that may vary."""
    known = sizes(subject.policy)
    rows = list(events(subject, "iterate"))
    lengths: dict[Place | None, list[str]] = {}
    for event in rows:
        lengths.setdefault(event.place, []).append(event.detail)
    for place, seen in lengths.items():
        dimension = _dimension(known, place)
        dynamic = bool(dimension) or len(set(seen)) > 1
        yield Iteration(place, seen[0], dynamic, dimension)
    for place, dimension in _ranges(subject, known):
        yield Iteration(place, "", True, dimension)
    yield from _indexed(subject)


def _dimension(known: Sizes | None, place: Place | None) -> str:
    """The name of the varying first dimension of an argument that the loop at `place` runs over."""
    if known is None or place is None or not known.function.covers(place):
        return ""
    for loop in ast.walk(known.function.tree):
        if isinstance(loop, ast.For | ast.comprehension) and loop.iter.lineno == place.line:
            shapes = (known.tensor(n) for n in ast.walk(loop.iter))
            first = (s[0] for s in shapes if s and isinstance(s[0], str))
            return next(first, "")
    return ""


def _indexed(subject: Subject) -> Iterator[Iteration]:
    """Loops over a range whose variable indexes a buffer or parameter, as schedules of diffusion policies are read."""
    import torch

    for function in functions(subject.policy):
        for loop in (n for n in ast.walk(function.tree) if isinstance(n, ast.For) and isinstance(n.target, ast.Name)):
            tables = (n for n in ast.walk(loop) if isinstance(n, ast.Subscript) and _names(n.slice, loop.target))
            rows = [t.shape[0] for n in tables if isinstance(t := function.resolve(n.value), torch.Tensor) and t.dim()]
            if rows:
                yield Iteration(function.place(loop.iter), str(rows[0]), False)


def _names(index: ast.AST, variable: ast.AST) -> bool:
    return isinstance(index, ast.Name) and isinstance(variable, ast.Name) and index.id == variable.id


def _ranges(subject: Subject, known: Sizes | None) -> Iterator[tuple[Place, str]]:
    if known is None or not functions(subject.policy):
        return
    for loop in ast.walk(known.function.tree):
        if not (isinstance(loop, ast.For | ast.comprehension) and isinstance(loop.iter, ast.Call)):
            continue
        if known.function.resolve(loop.iter.func) is range:
            for dimension in known.varying(loop.iter)[:1]:
                yield known.function.place(loop.iter), dimension
