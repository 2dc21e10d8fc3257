"""Delta debugging finds smallest parts, and all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphaudit.rewrite.reduce import all_minimal, minimise


@given(st.sets(st.integers(0, 40), min_size=1, max_size=5))
def test_the_culprits_and_nothing_else(guilty):
    asked = []

    def fails(items):
        asked.append(items)
        return guilty <= set(items)

    assert minimise(range(41), fails) == sorted(guilty)
    assert len(asked) < 400


def test_every_minimal_part_once():
    groups = [{3}, {10, 30}, {7}]

    def fails(items):
        return any(group <= set(items) for group in groups)

    found = list(all_minimal(range(41), fails))
    assert sorted(map(tuple, found)) == [(3,), (7,), (10, 30)]


def test_nothing_fails():
    assert list(all_minimal([1, 2], lambda items: False)) == []
