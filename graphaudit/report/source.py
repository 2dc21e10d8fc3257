"""The user's own line under a finding, with the part that it is about underlined."""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rich.cells import cell_len, set_cell_size

from graphaudit.findings import Place
from graphaudit.text import printable

_TAB = 4
_LARGEST_SOURCE = 4 * 2**20  # bytes; a longer file is no source that anybody wrote


@dataclass(frozen=True)
class Excerpt:
    """A source line fit to a width, and the cells [start, start + length) of it to underline."""

    text: str
    start: int
    length: int


def excerpt(place: Place, width: int) -> Excerpt | None:
    """The line at `place` in at most `width` cells; None if there is no such line to show."""
    raw = _line(place.file, place.line)
    if raw is None or not raw.strip():
        return None
    begin, end = _span(raw, place)
    text = printable(raw.expandtabs(_TAB))
    start = cell_len(printable(raw[:begin].expandtabs(_TAB)))
    stop = cell_len(printable(raw[:end].expandtabs(_TAB)))
    return _fit(text, start, max(stop - start, 1), max(width, 10))


def _span(raw: str, place: Place) -> tuple[int, int]:
    """The characters [begin, end) that the finding is about: its columns, else the code of the line."""
    first = len(raw) - len(raw.lstrip())
    code = _code_end(raw)
    begin = place.column if place.column is not None and place.column < len(raw) else first
    end = place.end_column if place.column is not None and place.end_column is not None else code
    return begin, min(end if end > begin else code, len(raw)) if code > begin else len(raw)


def _code_end(raw: str) -> int:
    """Where the code of a line ends and a comment begins."""
    end = len(raw.rstrip())
    try:
        for token in tokenize.generate_tokens(io.StringIO(raw.strip()).readline):
            if token.type == tokenize.COMMENT:
                stripped = raw.strip()[: token.start[1]].rstrip()
                return len(raw) - len(raw.lstrip()) + len(stripped) if stripped else end
    except (tokenize.TokenError, SyntaxError):
        pass  # one line of a longer statement; a comment at its end is underlined too
    return end


def _fit(text: str, start: int, length: int, width: int) -> Excerpt:
    if cell_len(text) <= width:
        return Excerpt(text, start, length)
    # Indentation goes first, then the end of the line, then, if the marked part is far right, its beginning.
    indent = len(text) - len(text.lstrip())
    text, start = text[indent:], start - indent
    if start + min(length, width // 2) > width - 1:
        cut = min(start - width // 4, len(text))
        text, start = "…" + text[cut:], start - cut + 1
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1).rstrip() + "…"
    return Excerpt(text, start, max(1, min(length, cell_len(text) - start)))


@lru_cache(maxsize=64)
def _lines(file: str) -> tuple[str, ...]:
    path = Path(file)
    try:
        # A place can come from a model file: only Python sources are read, never a device or a secret.
        if path.suffix != ".py" or not path.is_file() or path.stat().st_size > _LARGEST_SOURCE:
            return ()
        with tokenize.open(path) as source:
            return tuple(source.read().splitlines())
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return ()


def _line(file: str, line: int) -> str | None:
    lines = _lines(file)
    return lines[line - 1] if 1 <= line <= len(lines) else None
