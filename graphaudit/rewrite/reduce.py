"""Delta debugging: the smallest part of something that still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def minimise(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """A part of `items` that fails and of which no single item can be left out; `fails(items)` has to hold.

    The algorithm ddmin of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (IEEE TSE, 2002).
    """
    kept, parts = list(items), 2
    while len(kept) >= 2:
        size = -(-len(kept) // parts)
        chunks = [kept[i : i + size] for i in range(0, len(kept), size)]
        rests = [[x for j, c in enumerate(chunks) if j != i for x in c] for i in range(len(chunks))]
        smaller = next((c for c in chunks if fails(c)), None)
        if smaller is not None:
            kept, parts = smaller, 2
            continue
        smaller = next((r for r in rests if len(chunks) > 2 and fails(r)), None)
        if smaller is not None:
            kept, parts = smaller, max(parts - 1, 2)
        elif parts < len(kept):
            parts = min(len(kept), parts * 2)
        else:
            break
    return kept


def all_minimal(items: Sequence[T], fails: Callable[[list[T]], bool]) -> Iterator[list[T]]:
    """Minimal failing parts, disjoint from one another, until what is left of `items` does not fail."""
    remaining = list(items)
    while remaining and fails(remaining):
        found = minimise(remaining, fails)
        yield found
        remaining = [x for x in remaining if x not in found]
