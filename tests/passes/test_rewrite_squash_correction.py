"""rewrite_squash_correction on the spellings that people use, far outside of where the original is finite."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.rewrite_squash_correction import RewriteSquashCorrection
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

INF, NAN = float("inf"), float("nan")
AWKWARD = torch.tensor(
    [[0.0, -0.0, 1e-38, -1e-4], [0.5, -2.0, 5.0, -8.0], [9.1, -50.0, 1e4, -3e38], [INF, -INF, NAN, 0.1]]
)


def _named(x):
    y = torch.tanh(x)
    return y, torch.log(1 - y**2)


def _product(x):
    y = x.tanh()
    return torch.log(1.0 - y * y)


FIRES = {
    "power": lambda x: torch.log(1 - torch.tanh(x) ** 2),
    "named, with another reader": _named,
    "product": _product,
    "square": lambda x: torch.log(torch.ones(()) - torch.tanh(x).square()),
    "two factors": lambda x: torch.log((1 - torch.tanh(x)) * (1 + torch.tanh(x))),
    "log1p": lambda x: torch.log1p(-torch.tanh(x).pow(2)),
    "log1p of a product": lambda x: torch.log1p(-(torch.tanh(x) * torch.tanh(x))).sum(-1),
}


@pytest.mark.parametrize("spelling", FIRES)
def test_equivalent_where_finite(spelling):
    module = Unary(FIRES[spelling])
    result = run_pass(RewriteSquashCorrection, module, (AWKWARD,), ({0: "batch"},))
    assert len(result.rewritten) == 1
    assert not {"log", "log1p"} & set(ops(result.artifact))
    for x in (AWKWARD[:2], AWKWARD[1:2], AWKWARD[:3] if spelling.startswith("log1p of") else AWKWARD):
        assert_equivalent_where_finite(module, result.artifact, x)
    assert_runs_alike(result.artifact, (AWKWARD,), rtol=1e-6, atol=1e-6)


def test_far_out_it_is_what_float64_says():
    x = torch.tensor([[7.0, 9.5, -15.0, 18.0]])
    program = run_pass(RewriteSquashCorrection, Unary(FIRES["power"]), (x,)).artifact
    exact = 2 * (
        torch.log(torch.tensor(2.0).double()) - x.double().abs() - torch.log1p(torch.exp(-2 * x.double().abs()))
    )
    torch.testing.assert_close(program.runner()([x])[0].double(), exact, rtol=2e-7, atol=0)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-4])
def test_what_is_added_stays(epsilon):
    module = Unary(lambda x: torch.log(1 - torch.tanh(x) ** 2 + epsilon))
    program = run_pass(RewriteSquashCorrection, module, (torch.zeros(2, 4),), ({0: "batch"},)).artifact
    for x in (AWKWARD, AWKWARD[:1]):
        assert_equivalent_where_finite(module, program, x)
    assert_runs_alike(program, (AWKWARD,), rtol=1e-6, atol=2e-7)
    x = torch.linspace(-12, 12, 400)[None]
    exact = module(x.double())
    assert (program.runner()([x])[0] - exact).abs().max() < 4e-6  # eager is off by 0.05 with 1e-6


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (
            lambda x: torch.log(torch.add(1 - torch.tanh(x) ** 2, 1e-6, alpha=2)),
            ["what is added before the log is scaled"],
        ),
        (lambda x: torch.log(2 - torch.tanh(x) ** 2), []),
        (lambda x: torch.log(1 - torch.tanh(x) ** 3), []),
        (lambda x: torch.log(1 - torch.sigmoid(x) ** 2), []),
        (lambda x: torch.log(1 - torch.tanh(x) * torch.tanh(x + 1)), []),
        (lambda x: torch.log(1 + torch.tanh(x) ** 2), []),
        (lambda x: torch.log(torch.tanh(x) ** 2 - 1), []),
    ],
)
def test_what_stays(function, reason):
    result = run_pass(RewriteSquashCorrection, Unary(function), (AWKWARD,))
    assert not result.changed
    assert reasons(result) == reason
