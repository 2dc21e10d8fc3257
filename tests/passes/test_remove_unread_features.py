"""remove_unread_features."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.passes.remove_unread_features import RemoveUnreadFeatures
from tests.passes.helpers import assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike


class Head(nn.Module):
    """A linear layer of six features, and what is taken of them."""

    def __init__(self, take, bias=True):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.take = nn.Linear(4, 6, bias=bias), take

    def forward(self, x):
        return self.take(self.layer(x))


@pytest.mark.parametrize(
    ("take", "width"),
    [
        (lambda y: y.chunk(2, -1)[0].tanh(), 3),
        (lambda y: y.split([1, 4, 1], -1)[1].tanh(), 4),
        (lambda y: y[..., 2:].tanh(), 4),
        (lambda y: y[..., :-1].tanh(), 5),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_only_what_is_read(take, width, bias, shape):
    module = Head(take, bias)
    result = run_pass(RemoveUnreadFeatures, module, (torch.randn(shape),), ({0: "batch"},))
    assert ops(result.artifact) == ["linear", "tanh"]
    assert next(n for n in result.artifact.graph.nodes if n.op == "call_function").meta["val"].shape[-1] == width
    for x in (torch.randn(shape), torch.zeros(shape), 1e6 * torch.randn(shape)[:1], torch.full(shape, torch.inf)):
        assert_equivalent_where_finite(module, result.artifact, x)
    assert_runs_alike(result.artifact, (torch.randn(shape),), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("take", "reason"),
    [
        (lambda y: (lambda mean, log_std: mean * log_std)(*y.chunk(2, -1)), "different features"),
        (lambda y: (y.chunk(2, -1)[0], y.exp()), "all of its features"),
    ],
)
def test_left_alone(take, reason):
    result = run_pass(RemoveUnreadFeatures, Head(take), (torch.randn(3, 4),))
    assert not result.changed and reason in reasons(result)[0]


@pytest.mark.parametrize("take", [lambda y: y.chunk(2, 0)[0], lambda y: y[..., ::2], torch.tanh])
def test_others_are_no_candidates(take):
    result = run_pass(RemoveUnreadFeatures, Head(take), (torch.randn(6, 4),))
    assert not result.changed and not result.left
