"""Adaptive max pools over known sizes become maxima of slices.

    adaptive_max_pool(x, n)  →  cat over i < n of amax(x[floor(i s / n) : ceil((i + 1) s / n)])    s = the size of x

- In one, two and three dimensions, one after the other. torch has no ONNX translation of them.
- Left alone: sizes that vary, more than 64 windows along a dimension, indices that are read.

Maxima are exact.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument, results_read, shape
from graphaudit.rulebook.target import Target

_MOST_WINDOWS = 64


class DecomposeAdaptiveMaxPools(OperatorPass):
    """adaptive_max_pool1d, 2d and 3d → slices and maxima."""

    name = "decompose_adaptive_max_pools"
    fixes = ("unsupported-op",)
    target_ops = frozenset(f"aten.adaptive_max_pool{n}d" for n in (1, 2, 3))
    runs_before = ("insert_nan_guards",)
    claims = Claim.EQUIVALENT

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """The maxima, dimension by dimension."""
        wanted = argument(node, "output_size")
        dims = int(str(node.target)[len("aten.adaptive_max_pool")])
        sizes = shape(argument(node, "self"))[-dims:]
        wanted = list(wanted) * (dims if len(wanted) == 1 else 1)
        if not all(isinstance(size, int) for size in (*sizes, *wanted)):
            return "the sizes vary"
        if max(wanted) > _MOST_WINDOWS:
            return f"it has {max(wanted)} windows; written out are those up to {_MOST_WINDOWS}"
        if results_read(node) - {0}:
            return "its indices are read"
        return partial(_pool, wanted)


def _pool(wanted: list[int], x: Tensor, output_size: Any) -> tuple[Tensor, None]:  # noqa: ARG001
    for dim, count in zip(range(-len(wanted), 0), wanted):
        size = x.shape[dim]
        windows = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        parts = [x.narrow(dim, start, end - start).amax(dim, keepdim=True) for start, end in windows]
        x = torch.cat(parts, dim) if len(parts) > 1 else parts[0]
    return x, None
