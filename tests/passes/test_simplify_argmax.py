"""simplify_argmax: the greatest index is found in the scores themselves, with the dimensions that the policy wants."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.distributions import Categorical

from graphaudit.passes.simplify_argmax import SimplifyArgmax
from tests.passes.helpers import Function, Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

X = torch.tensor([[0.5, -1.0, 1e30, 2.0], [-1e9, -1e9, -1e9, -1e9], [0.0, 1.0, -1e9, 1.0]])


def shifted(x):
    return (x - x.logsumexp(-1, keepdim=True)).argmax(-1)


def dueling(x):
    x = x.clamp(-99, 99)  # against larger ones, the mean would round the small ones to ties
    return (x[..., :1] + (x - x.mean(-1, keepdim=True))).argmax(-1)


@pytest.mark.parametrize(
    ("call", "left"),
    [
        (lambda x: x.softmax(-1).argmax(-1), ["argmax"]),
        (lambda x: x.log_softmax(1).argmax(1), ["argmax"]),
        (lambda x: (x / 0.5).softmax(-1).max(-1).indices, ["max", "getitem"]),
        (lambda x: Categorical(logits=x, validate_args=False).mode, ["argmax"]),
        (shifted, ["argmax"]),
        (dueling, ["clamp", "argmax"]),
        (lambda x: (2.0 * x + 3).argmax(0), ["argmax"]),
        (lambda x: x.argmax(-1).unsqueeze(-1), ["argmax"]),
        (lambda x: x.argmax(-1, keepdim=True).squeeze(-1).unsqueeze(1), ["argmax"]),
        (lambda x: torch.stack((x.argmax(1), x.softmax(1).argmax(1)), 1), ["argmax", "argmax", "cat"]),
    ],
)
def test_what_the_order_does_not_need_goes(call, left):
    module = Unary(call)
    result = run_pass(SimplifyArgmax, module, (X,), ({0: "batch"},))
    assert ops(result.artifact) == left
    for x in (X, X[:1], torch.randn(64, 4)):
        assert_equivalent_where_finite(module, result.artifact, x)
    assert_runs_alike(result.artifact, (X,))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.argmax(),
        lambda x: x.softmax(0).argmax(1),
        lambda x: x.tanh().argmax(1),
        lambda x: (x * -1.0).argmax(1),
        lambda x: (1.0 - x).argmax(1),
        lambda x: (x + x.sum(0, keepdim=True)).argmax(1),
        lambda x: (x[:1] + x[:, :1]).argmax(1),
        lambda x: x.argmax(1).unsqueeze(0),
        lambda x: torch.stack((x.argmax(1), x.argmax(1)), 0),
        lambda x: x.softmax(1).max(1),
        lambda x: (x.long() - 5).argmax(1),
    ],
)
def test_another_order_stays(call):
    result = run_pass(SimplifyArgmax, Unary(call), (X,))
    assert not result.changed and not result.left


def test_what_is_read_elsewhere_stays():
    def both(x):
        probabilities = x.softmax(-1)
        return probabilities, probabilities.argmax(-1)

    result = run_pass(SimplifyArgmax, Unary(both), (X,))
    assert not result.changed
    assert reasons(result) == ["softmax is read elsewhere too"]


def test_the_value_of_a_dueling_network_is_cut_away():
    class Dueling(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.value, self.advantage = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 3)

        def forward(self, x):
            hidden = self.body(x).relu()
            advantage = self.advantage(hidden)
            return (self.value(hidden) + advantage - advantage.mean(1, keepdim=True)).argmax(1)

    module = Dueling()
    result = run_pass(SimplifyArgmax, module, (torch.randn(3, 4),), ({0: "batch"},))
    assert ops(result.artifact) == ["linear", "relu", "linear", "argmax"]
    assert {s.target for s in result.artifact.exported.graph_signature.input_specs if s.target} == {
        f"{layer}.{part}" for layer in ("body", "advantage") for part in ("weight", "bias")
    }
    for _ in range(5):
        assert_equivalent_where_finite(module, result.artifact, torch.randn(16, 4))


def test_noise_that_differs_by_score_stays():
    result = run_pass(SimplifyArgmax, Function(lambda x, e: (x.softmax(-1) / e).argmax(-1)), (X, torch.ones(3, 4)))
    assert not result.changed
