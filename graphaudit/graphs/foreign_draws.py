"""The operator `graphaudit::draw`: a draw from a generator of Python's or NumPy's, as a node of a graph.

Its source is `python`, `numpy-legacy` (the global ones), or the name of a generator that the policy holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from graphaudit.graphs import foreign
from graphaudit.graphs.held import source_named

_LIBRARY = torch.library.Library("graphaudit", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "draw(str source, str distribution, SymInt[] shape, int low, int high) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded,),
)


def _drawn(source: str, distribution: str, shape: Sequence[int], low: int, high: int) -> torch.Tensor:
    limits = {"low": low, "high": high}
    return torch.from_numpy(foreign.draw(source_named(source), distribution, shape, limits))


def _shaped(source: str, distribution: str, shape: Sequence[int], low: int, high: int) -> torch.Tensor:
    del source, low, high
    return torch.empty(shape, dtype=torch.int64 if distribution in foreign.WHOLE else torch.float64)


_LIBRARY.impl("draw", _drawn, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("graphaudit::draw")(_shaped)

draw = torch.ops.graphaudit.draw.default
