"""How text that comes from a model, a file or a user's exception is shown. Imports nothing heavy."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

_HARMLESS = {"\t", "\n"}
# Cc, Cf: control and formatting (direction overrides among them); Cs: half a surrogate pair; Co, Cn: no glyph.
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(text: str) -> str:
    """`text` with every control or direction character written as an escape, so that it cannot steer a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in _HARMLESS or unicodedata.category(c) not in _UNPRINTABLE else _escape(c) for c in text)


def one_line(text: str, limit: int = 300) -> str:
    """`text` on a single line of at most `limit` characters, printable."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def shown_path(file: str | Path) -> str:
    """The path from the working folder where the file lies below it, else the path as it is."""
    path = Path(file)
    try:
        return printable(str(path.relative_to(Path.cwd()) if path.is_absolute() else path))
    except ValueError:
        return printable(str(path))


def suggestion(name: str, known: Iterable[str], limit: int = 3) -> str:
    """`Did you mean 'a' or 'b'?`, or nothing where no known name is near."""
    by_lower = {k.lower(): k for k in known}
    near = [by_lower[m] for m in get_close_matches(name.lower(), by_lower, n=limit, cutoff=0.5)]
    if not near:
        return ""
    quoted = [repr(n) for n in near]
    return f"Did you mean {' or '.join([', '.join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)}?"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 node`, `2 nodes`, `41,220 parameters`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
