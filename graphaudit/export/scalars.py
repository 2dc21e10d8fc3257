"""Numbers beside float64 tensors: torch's exporter (2.13) writes `x * 0.1` with 0.1 as a float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import fx

from graphaudit.graphs.program import Program

_ARITHMETIC = tuple(getattr(torch.ops.aten, name).Tensor for name in ("add", "sub", "mul", "div"))


def keep_doubles(program: Program) -> Program:
    """The program with the numbers of float64 arithmetic as constants; itself where float32 holds them all."""
    if not any(_rounds(node, value) for node in program.graph.nodes for value in node.args):
        return program
    kept = program.copy()
    for node in list(kept.graph.nodes):
        node.args = tuple(_constant(kept, value) if _rounds(node, value) else value for value in node.args)
    return kept.finish()


def _rounds(node: fx.Node, value: Any) -> bool:
    return (
        isinstance(value, float)
        and node.target in _ARITHMETIC
        and node.meta["val"].dtype is torch.float64
        and float(np.float32(value)) != value
    )


def _constant(program: Program, value: float) -> fx.Node:
    return program.add_constant(torch.tensor(value, dtype=torch.float64), "number")
