"""Operations counted by formula, held to torch's own counter on both kinds of graph."""

from __future__ import annotations

import pytest
import torch
from onnx import parser
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import graphaudit
from graphaudit.audit.arithmetic import operations
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.onnx_view import view_model

PRODUCTS = ("Gemm", "MatMul", "Conv", "ConvTranspose", "addmm", "mm", "bmm", "linear", "convolution", "matmul")


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(4, 8, 3, stride=2, groups=2)
        self.up = nn.ConvTranspose2d(8, 4, 3, stride=2)
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.up(torch.relu(self.down(x))).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.transpose(-1, -2), -1) @ v


@pytest.mark.parametrize("target", ["ascend-910b", "torchair"])
@pytest.mark.parametrize(("module", "shape"), [(Convolutional(), (1, 4, 9, 9)), (Attention(), (2, 5, 8))])
def test_matrix_products_and_convolutions_count_what_torch_counts(module, shape, target):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module.eval()(torch.rand(shape))
    report = graphaudit.audit(module.eval(), (torch.rand(shape),), target=target)
    counted = report.islands[target].operations
    assert counter.get_total_flops() <= counted <= 1.6 * counter.get_total_flops()  # the rest is one for each element


HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("g (float[2,3] x, float[3,4] w) => (float[2,4] y) { y = MatMul (x, w) }", 2 * 2 * 3 * 4),
        ("g (float[3,2] x, float[3,4] w) => (float[2,4] y) { y = Gemm <transA = 1> (x, w) }", 2 * 2 * 3 * 4),
        ("g (float[2,3] x) => (float[2] y) { y = ReduceSum <keepdims = 0> (x) }", 6),
        ("g (float[2,3] x) => (float[3,2] y) { y = Transpose <perm = [1, 0]> (x) }", 0),
        ("g (float[N,3] x) => (float[N,3] y) { y = Tanh (x) }", 3),
        ("g (float[5,2,3] x, float[1,16,3] w, float[1,16,4] r) => (y) { y = LSTM <hidden_size = 4> (x, w, r) }", 2240),
    ],
)
def test_formulas_counted_by_hand(body, expected):
    (node,) = view_model(OnnxModel(parser.parse_model(HEAD + body))).nodes
    assert operations(node) == expected
