"""What becomes of a rewritten program in ONNX Runtime."""

from __future__ import annotations

import torch

from graphaudit.export.translate import to_onnx
from graphaudit.graphs.program import Program
from graphaudit.runtimes.onnxruntime import runner
from tests.passes.helpers import TARGET


def onnx_ops(program: Program) -> set[str]:
    """The operators that the exporter makes of a program."""
    return {node.op_type for node in to_onnx(program, TARGET).proto.graph.node}


def assert_runs_alike(program: Program, *args: torch.Tensor, rtol: float = 0.0, atol: float = 0.0) -> None:
    """ONNX Runtime gives what the program gives, NaN and infinities in the same places."""
    translated = runner(to_onnx(program, TARGET))(list(args))
    for got, want in zip(translated, program.runner()(list(args)), strict=True):
        torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)
