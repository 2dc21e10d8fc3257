from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import graphaudit
from graphaudit.graphs.recurrent import whole_recurrent_layers


class Sequence(nn.Module):
    """Starts from the layer's own zeros, whatever the batch and the number of steps."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x)


@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(4, 8, num_layers=2, batch_first=True),
        nn.LSTM(4, 8, bidirectional=True, bias=False, batch_first=True),
        nn.GRU(4, 8, num_layers=2),
    ],
    ids=["lstm", "bidirectional", "gru over time first"],
)
def test_steps_and_batch_may_vary(layer: nn.Module) -> None:
    names = {0: "batch", 1: "time"} if layer.batch_first else {0: "time", 1: "batch"}
    report = graphaudit.rewrite(
        Sequence(layer).eval(), (torch.randn(5, 3, 4),), target="onnxruntime", dynamic_shapes=(names,), count=24
    )
    assert report.fit["onnxruntime"], report.findings
    assert report.certificate is not None and report.certificate.claim == "equivalent"


def test_torch_is_left_as_it_was() -> None:
    layer, x = nn.GRU(2, 3), torch.ones(4, 1, 2)
    wanted = layer(x)[0]
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    kernels = [op.py_kernels[key] for op in (torch.ops.aten.lstm.input, torch.ops.aten.gru.input)]
    with whole_recurrent_layers():
        assert torch.equal(layer(x)[0], wanted)
    assert kernels == [op.py_kernels[key] for op in (torch.ops.aten.lstm.input, torch.ops.aten.gru.input)]
