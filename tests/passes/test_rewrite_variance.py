"""rewrite_variance: the digits that a large mean takes from a difference of squares."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.rewrite_variance import RewriteVariance
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

AWKWARD = torch.tensor(
    [
        [0.0, -0.0, 0.0, 0.0],
        [5000.0, 5001.0, 4999.0, 5000.5],
        [1e-20, 2e-20, -1e-20, 0.0],
        [3e19, -3e19, 1.0, 2.0],  # the squares overflow
        [float("inf"), 1.0, float("nan"), -1.0],
    ]
)
SPELLINGS = [
    lambda x: (x**2).mean(-1) - x.mean(-1) ** 2,
    lambda x: (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square(),
    lambda x: x.square().sum(1) / 4 - (x.sum(1) / 4) ** 2,
    lambda x: torch.mean(x.pow(2)) - torch.mean(x).pow(2),
]


@pytest.mark.parametrize("function", SPELLINGS)
def test_spellings(function):
    module = Unary(function)
    result = run_pass(RewriteVariance, module, (torch.zeros(2, 4),), ({0: "batch"},))
    assert result.changed
    for batch in (AWKWARD[:3], AWKWARD[3:4], AWKWARD[1:2]):
        assert_equivalent_where_finite(module, result.artifact, batch)
    assert_runs_alike(result.artifact, (AWKWARD[:3],), rtol=1e-6, atol=0)


def test_what_cancellation_took_is_there():
    x = AWKWARD[1:2]
    got = run_pass(RewriteVariance, Unary(SPELLINGS[0]), (x,)).artifact.runner()([x])[0]
    torch.testing.assert_close(got, x.double().var(-1, correction=0).float(), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: (x**2).mean(-1, keepdim=True) - x.mean(0) ** 2, ["the means run over different dimensions"]),
        (lambda x: (x**2).mean(-1) - x.mean(-1), []),
        (lambda x: (x**2).sum(-1) / 3 - (x.sum(-1) / 4) ** 2, []),
        (lambda x: (x**3).mean(-1) - x.mean(-1) ** 2, []),
        (lambda x: (x**2).mean(-1) - (2 * x).mean(-1) ** 2, []),
    ],
)
def test_what_stays(function, reason):
    result = run_pass(RewriteVariance, Unary(function), (AWKWARD,))
    assert not result.changed and reasons(result) == reason
    assert ops(result.artifact)
