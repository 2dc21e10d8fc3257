"""How often a loop on tensors may run: from a comment on its line, or from `--loop-bound`."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from graphaudit.errors import PolicyError
from graphaudit.findings import Place

_COMMENT = re.compile(r"#\s*graphaudit:\s*loop-bound\s*=\s*(\d+)")


def beyond(place: Place | None, bound: int) -> str:
    """When the guard of a loop of `bound` masked passes is true, as the certificate says it."""
    where = f"{Path(place.file).name}:{place.line}" if place else "a loop"
    return f"the loop at {where} runs at most {bound} times; a guard output is true where it would go on"


@dataclass(frozen=True)
class Bounds:
    """Bounds by `file.py:LINE`, and one for every other loop (None: there is none)."""

    lines: dict[tuple[str, int], int] = field(default_factory=dict)
    default: int | None = None

    @classmethod
    def parse(cls, texts: Sequence[str | int]) -> Bounds:
        """From `8` or `walker.py:41=8`. Raises PolicyError for anything else."""
        lines: dict[tuple[str, int], int] = {}
        default = None
        for text in map(str, texts):
            where, separator, count = text.rpartition("=")
            file, _, line = where.rpartition(":")
            if not count.isdecimal() or int(count) < 1 or (separator and not (file and line.isdecimal())):
                raise PolicyError(
                    f"{text!r} is not a loop bound", "Write N, or file.py:LINE=N for the loop on that line."
                )
            if separator:
                lines[file, int(line)] = int(count)
            else:
                default = int(count)
        return cls(lines, default)

    def at(self, place: Place | None) -> int | None:
        """The bound of the loop at `place`; a comment on its line comes first."""
        if place is not None:
            comment = _COMMENT.search(linecache.getline(place.file, place.line))
            if comment:
                return int(comment.group(1))
            for (file, line), count in self.lines.items():
                if line == place.line and Path(place.file).parts[-len(Path(file).parts) :] == Path(file).parts:
                    return count
        return self.default
