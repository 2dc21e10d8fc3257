"""Operators that torch's exporter has no ONNX for."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphaudit

X = torch.tensor([[0.5, -1.0, -0.0, 0.0], [2.0, -3.0, 1.5, 4.0], [1.0, 0.25, -7.0, 3.0]])

FUNCTIONS = {
    "masked_select": lambda x: torch.masked_select(x, x > 0),
    "masked_select, broadcast": lambda x: torch.masked_select(x, x[:, :1] > 0.7),
    "signbit": lambda x: torch.signbit(x),
    "rrelu": lambda x: F.rrelu(x),
    "fill_diagonal_": lambda x: (x * 2).fill_diagonal_(9.0),
    "a write through as_strided": lambda x: _strided(x.clone()),
    "stable sort": lambda x: torch.sort(x.round(), dim=-1, stable=True),
}


def _strided(x: torch.Tensor) -> torch.Tensor:
    x.as_strided((2, 2), (4, 1), 1).mul_(3)
    return x


class Apply(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_to_eager(name, tmp_path) -> None:
    module = Apply(FUNCTIONS[name]).eval()
    report = graphaudit.rewrite(module, (X,), target="onnxruntime", output=tmp_path / "bundle", count=16)
    assert report.bundle is not None, report.statement
    torch.testing.assert_close(graphaudit.load(report.bundle)(X), module(X))
