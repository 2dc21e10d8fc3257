"""The operator `graphaudit::draw`: a draw from Python's or NumPy's global generator, as a node of a graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from graphaudit.graphs import foreign

_LIBRARY = torch.library.Library("graphaudit", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define(  # type: ignore[no-untyped-call]
    "draw(str source, str distribution, SymInt[] shape, int low, int high) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded,),
)


def _drawn(source: str, distribution: str, shape: Sequence[int], low: int, high: int) -> torch.Tensor:
    limits = {"low": low, "high": high}
    return torch.from_numpy(foreign.draw(foreign.global_source(source), distribution, shape, limits))


def _shaped(source: str, distribution: str, shape: Sequence[int], low: int, high: int) -> torch.Tensor:
    del source, low, high
    return torch.empty(shape, dtype=torch.int64 if distribution == "randint" else torch.float64)


_LIBRARY.impl("draw", _drawn, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("graphaudit::draw")(_shaped)

draw = torch.ops.graphaudit.draw.default
