"""rewrite_zero_divisions: 0 / 0 of a vector and its own norm becomes 0, and nothing else moves by a bit."""

from __future__ import annotations

import pytest
import torch

from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.nans import Nans
from graphaudit.passes.rewrite_zero_divisions import RewriteZeroDivisions
from tests.passes.helpers import Unary, assert_repaired, reasons, run_pass
from tests.passes.translated import assert_runs_alike

X = torch.tensor([[0.5, -2.0, 3.0, 1.0], [0.0, 0.0, 0.0, 0.0], [-1e-3, 0.0, 2e3, 0.0]])
INF, NAN = float("inf"), float("nan")


def _weights(x):
    return (x > 0).float()


FIRES = {
    "norm": lambda x: x / x.norm(dim=-1, keepdim=True),
    "norm, unsqueezed": lambda x: x / torch.norm(x, 2, -1)[:, None],
    "torch.linalg": lambda x: x / torch.linalg.norm(x, dim=-1, keepdim=True).expand_as(x),
    "root of squares": lambda x: x / torch.sqrt((x * x).sum(-1, keepdim=True)),
    "power": lambda x: x / ((x**2).sum(-1, keepdim=True)) ** 0.5,
    "rsqrt": lambda x: x * torch.rsqrt((x * x).sum(-1)).unsqueeze(-1),
    "reciprocal": lambda x: 3 * x * (1 / x.norm(dim=-1)).unsqueeze(-1),
    "sum of sizes": lambda x: x / x.abs().sum(-1, keepdim=True),
    "largest": lambda x: x / x.abs().amax(-1, keepdim=True),
    "sign": lambda x: x / x.abs(),
    "renormalised": lambda x: torch.relu(x) / torch.relu(x).sum(-1, keepdim=True),
    "masked mean": lambda x: (x * _weights(x)).sum(-1) / _weights(x).sum(-1),
    "masked mean of vectors": lambda x: (
        (torch.stack([x, 2 * x], -1) * _weights(x).unsqueeze(-1)).sum(1) / _weights(x).sum(1, keepdim=True)
    ),
    "cosine": lambda x: (x * (3 * x)).sum(-1) / (x.norm(dim=-1) * (3 * x).norm(dim=-1)),
    "standardised": lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True),
}


@pytest.mark.parametrize("spelling", FIRES)
def test_zero_over_zero_is_zero(spelling):
    module = Unary(FIRES[spelling])
    result = run_pass(RewriteZeroDivisions, module, (X,), ({0: "batch"},))
    assert len(result.rewritten) == 1 and not result.left
    assert assert_repaired(module, result.artifact, X, value=0.0)
    for x in (X[:1], X[1:2], X * 1e3):
        assert_repaired(module, result.artifact, x, value=0.0)
    assert_runs_alike(result.artifact, (X,), (X[1:2],), rtol=1e-6, atol=1e-6)


def test_nan_and_infinity_of_the_input_stay():
    program = run_pass(RewriteZeroDivisions, Unary(FIRES["norm"]), (X,)).artifact
    x = torch.tensor([[NAN, 1.0, 0.0, 0.0], [INF, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    torch.testing.assert_close(program.runner()([x])[0], FIRES["norm"](x), rtol=0, atol=0, equal_nan=True)


def test_no_nan_is_seen_behind_it():
    program = run_pass(RewriteZeroDivisions, Unary(lambda x: FIRES["norm"](x).argmax(-1)), (X,)).artifact
    view = view_program(program)
    assert not any(Nans(view).reach(v) for node in view.nodes for v in node.outputs)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + 1) / x.norm(dim=-1, keepdim=True),
        lambda x: x / (x + 1).norm(dim=-1, keepdim=True),
        lambda x: x[:, :3] / x[:, :3].norm(dim=-1),  # along the wrong dimension
        lambda x: x / (x.norm(dim=-1, keepdim=True) + 1e-8),
        lambda x: x / x.norm(dim=-1, keepdim=True).clamp(min=1e-8),
        lambda x: x / x.sum(-1, keepdim=True),
        lambda x: x / torch.linalg.vector_norm(x, -1, dim=-1, keepdim=True),
        lambda x: (x - x.mean()) / x.std(-1, keepdim=True),
        lambda x: (x * _weights(x)).sum(-1) / _weights(x - 1).sum(-1),
        lambda x: 1 / x.norm(dim=-1),
    ],
)
def test_others_are_no_candidates(function):
    result = run_pass(RewriteZeroDivisions, Unary(function), (X,))
    assert not result.changed and not result.left


@pytest.mark.parametrize("asks", [torch.nan_to_num, torch.isnan, torch.isfinite, lambda y: torch.where(y == y, y, 7.0)])
def test_what_is_tested_for_nan_stays(asks):
    result = run_pass(RewriteZeroDivisions, Unary(lambda x: asks(FIRES["norm"](x) + 1)), (X,))
    assert not result.changed
    assert reasons(result) == ["the policy asks whether the result is finite, and answers that itself"]
