"""Writes through a boolean mask become selections, so that no shape depends on data.

    x[mask] = v, captured as index_put(x, [mask], v)   →  where(mask, v, x)

- The mask covers the first dimensions of x, and v has one element or broadcasts over the dimensions behind them.
- Left alone: several index tensors, `accumulate`, and values that differ from row to row.

The results are exact.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.graphs.selection import where
from graphaudit.rewrite.base import Level, Pass, PassResult
from graphaudit.rewrite.edit import insert_function, replace_node
from graphaudit.rewrite.operator_pass import argument
from graphaudit.rulebook.target import Target

_aten = torch.ops.aten


class ConvertMaskWrites(Pass[Program]):
    """x[mask] = v → where(mask, v, x)."""

    name = "convert_mask_writes"
    level = Level.FX
    fixes = ("bool-mask-index", "index-put", "dynamic-shape-op")
    target_ops = frozenset({"aten.index_put"})
    runs_after = ("remove_inference_noops",)
    claims = Claim.EQUIVALENT

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Replace every write through a mask."""
        result = PassResult(artifact)
        for node in artifact.graph.find_nodes(op="call_function", target=_aten.index_put.default):
            if any(_is_mask(index) for index in node.args[1]):
                name, place = node.name, artifact.place(node)
                reason = _convert_write(node)
                result.record(name, place, reason)
        if result.changed:
            artifact.finish()
        return result


def _convert_write(node: fx.Node) -> str:
    """Replace a write; empty, or why it stays."""
    source, indices, value = node.args[:3]
    reason = _why_not_one_mask(indices)
    if reason:
        return reason
    if argument(node, "accumulate"):
        return "it accumulates"
    rank, covered = source.meta["val"].dim(), indices[0].meta["val"].dim()  # type: ignore[union-attr]
    written = value.meta["val"]  # type: ignore[union-attr]
    one = all(isinstance(size, int) and size == 1 for size in written.shape)
    if not one and written.dim() > rank - covered:
        return "the values differ from row to row"

    def select(x: Tensor, mask: Tensor, v: Tensor) -> Tensor:
        return where(_widen(mask, rank), (v.reshape(()) if one else v).to(x.dtype), x)

    replace_node(node, insert_function(node, select, (source, indices[0], value)))  # type: ignore[index]
    return ""


def _why_not_one_mask(indices: Any) -> str:
    given = [index for index in indices if index is not None]
    if len(given) != 1 or indices[0] is None:
        return "the mask is not the only index, over the first dimensions"
    return ""


def _is_mask(index: Any) -> bool:
    return isinstance(index, fx.Node) and index.meta["val"].dtype == torch.bool


def _widen(mask: Tensor, rank: int) -> Tensor:
    return mask.reshape(*mask.shape, *(1,) * (rank - mask.dim()))
