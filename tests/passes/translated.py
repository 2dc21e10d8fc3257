"""What becomes of a rewritten program in ONNX Runtime."""

from __future__ import annotations

import torch

from graphaudit.export.translate import to_onnx
from graphaudit.graphs.program import Program
from graphaudit.runtimes.onnxruntime import runner
from tests.passes.helpers import TARGET


def assert_runs_alike(
    program: Program, *calls: tuple[torch.Tensor, ...], without: str = "", rtol: float = 0.0, atol: float = 0.0
) -> None:
    """ONNX Runtime gives what the program gives for each of `calls`, and the model has no operator `without`."""
    model = to_onnx(program, TARGET)
    assert without not in {node.op_type for node in model.proto.graph.node}
    run = runner(model)
    for call in calls:
        for got, want in zip(run(list(call)), program.runner()(list(call)), strict=True):
            torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)
