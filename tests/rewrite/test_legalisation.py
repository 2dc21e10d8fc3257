"""What ATC's parser lacks or reads only in part, on the whole road to an Ascend chip, equal to eager."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphaudit


class Parts(nn.Module):
    """Functions of one input of shape [3, 6], all results side by side."""

    functions = {
        "rope": lambda x, e: torch.view_as_real(
            torch.view_as_complex(x.reshape(3, 3, 2)) * torch.polar(torch.ones(3), e[:3])
        ),
        "cdist": lambda x, e: torch.cdist(x, e[:6].expand(2, 6)),
        "bucketize": lambda x, e: torch.bucketize(x, e),
        "searchsorted": lambda x, e: torch.searchsorted(e, x, right=True),
        "unfold": lambda x, e: x.unfold(-1, 3, 1).sum(-1),
        "patches": lambda x, e: F.unfold(x.reshape(3, 1, 2, 3), 2),
        "cumprod": lambda x, e: x.cumprod(-1),
        "cummax": lambda x, e: tuple(x.cummax(-1)),
        "logcumsumexp": lambda x, e: x.logcumsumexp(-1),
        "erfinv": lambda x, e: torch.erfinv(x.tanh() * 0.99),
        "lgamma": lambda x, e: torch.lgamma(x.abs() + 0.1),
        "atan2": lambda x, e: torch.atan2(x[:, :3], x[:, 3:]),
        "hypot": lambda x, e: torch.hypot(x[:, :3], x[:, 3:]),
        "logaddexp": lambda x, e: torch.logaddexp(x[:, :3] * 60, x[:, 3:] * 60),
        "quantile": lambda x, e: x.quantile(0.3, dim=-1),
        "median": lambda x, e: tuple(x.median(-1)),
        "kthvalue": lambda x, e: x.kthvalue(2, -1).values,
        "stable sort": lambda x, e: torch.sort(x > 0, dim=-1, stable=True).indices,
        "masks": lambda x, e: ((x > 0) + (x < -1)).sum(-1),
        "whole": lambda x, e: x.amax(),
        "gelu of opset 20": lambda x, e: F.gelu(x, approximate="tanh"),
    }

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("edges", torch.linspace(-2, 2, 9))

    def forward(self, x: torch.Tensor) -> dict[str, object]:
        return {name: function(x, self.edges) for name, function in self.functions.items()}


class Layers(nn.Module):
    """Recurrent layers whose attributes the parser ignores."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gru = nn.GRU(6, 4, batch_first=True, bidirectional=True)
        self.lstm = nn.LSTM(8, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(self.gru(x)[0])[0]


@pytest.mark.parametrize(("module", "shape"), [(Parts(), (3, 6)), (Layers(), (2, 4, 6))], ids=["functions", "layers"])
def test_all_of_it_reaches_the_chip(module, shape, tmp_path):
    def inputs(seed: int) -> tuple[torch.Tensor]:
        return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)),)

    report = graphaudit.rewrite(
        module, inputs(0), target="ascend-310p", inputs=inputs, count=8, output=tmp_path / "bundle"
    )
    assert report.fit["ascend-310p"], [f.message for f in report.findings if f.severity == "error" and not f.fixed_by]
    x = inputs(1000)[0]
    got = torch.utils._pytree.tree_leaves(graphaudit.load(tmp_path / "bundle")(x.numpy()))
    for left, right in zip(got, torch.utils._pytree.tree_leaves(module(x)), strict=True):
        np.testing.assert_allclose(np.asarray(left), right.detach().numpy(), rtol=2e-4, atol=2e-5)
