"""rewrite_atanh: finite at -1 and 1, in every spelling, and the very number that tanh was given where it is at hand."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.rewrite_atanh import RewriteAtanh
from tests.passes.helpers import TARGET, Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

Y = torch.tensor([[0.5, -0.25, 0.0, 1.0], [-1.0, 0.999999, -0.9999999, 1.0000001]])
X = torch.tensor([[0.5, -2.0, 9.5, -15.0], [0.0, 1e-6, 7.0, 88.0]])
LARGEST = 8.664339757  # atanh(1 - 2**-24)

REPAIRED = {
    "atanh": torch.atanh,
    "log1p": lambda y: 0.5 * (torch.log1p(y) - torch.log1p(-y)),
    "logs": lambda y: (torch.log(1 + y) - torch.log(1 - y)) / 2,
    "log of a quotient": lambda y: 0.5 * torch.log((1 + y) / (1 - y)),
    "a clamp that rounds to 1": lambda y: torch.atanh(y.clamp(-1 + 1e-8, 1 - 1e-8)),
}


@pytest.mark.parametrize("spelling", REPAIRED)
def test_finite_at_the_bounds(spelling):
    function = REPAIRED[spelling]
    result = run_pass(RewriteAtanh, Unary(function), (Y,), ({0: "batch"},))
    assert len(result.rewritten) == 1 and ops(result.artifact)[-1] == "where"
    (got,), eager = result.artifact.runner()([Y]), function(Y)
    exact, inside = torch.atanh(Y.double()), eager.isfinite() & (Y.abs() < 1)
    if spelling == "atanh":
        assert torch.equal(got[inside], eager[inside])
    assert ((got - exact).abs() <= (eager - exact).abs() + 2e-7)[inside].all()
    torch.testing.assert_close(got[~inside], torch.sign(Y)[~inside] * LARGEST)
    assert_runs_alike(result.artifact, (Y,), rtol=1e-6, atol=1e-6)


def test_nan_stays():
    program = run_pass(RewriteAtanh, Unary(torch.atanh), (Y,)).artifact
    assert program.runner()([torch.full((2, 4), float("nan"))])[0].isnan().all()


def test_of_tanh_it_is_the_argument():
    module = Unary(lambda x: torch.atanh(torch.tanh(x)))
    program = run_pass(RewriteAtanh, module, (X,)).artifact
    assert torch.equal(program.runner()([X])[0], X)
    assert_equivalent_where_finite(module, program, X[:, :2])


def test_of_a_clamped_tanh_it_is_a_clamp():
    module = Unary(lambda x: torch.atanh(torch.tanh(x).clamp(-1 + 1e-6, 1 - 1e-6)))
    result = run_pass(RewriteAtanh, module, (X,))
    assert ops(result.artifact) == ["clamp"]
    got, exact = result.artifact.runner()([X])[0], module(X.double())
    assert ((got - exact).abs() <= (module(X) - exact).abs() + 1e-6).all()
    torch.testing.assert_close(got.double(), exact, rtol=1e-6, atol=1e-6)


def test_a_target_that_computes_in_float16_reaches_1_earlier():
    narrow = type(TARGET)(name="npu", summary="", opset=18, max_opset=18, compute_dtype="float16")
    module = Unary(lambda y: torch.atanh(y.clamp(-1 + 1e-6, 1 - 1e-6)))
    assert not run_pass(RewriteAtanh, module, (Y,)).changed
    program = run_pass(RewriteAtanh, module, (Y,), target=narrow).artifact
    assert torch.equal(program.runner()([Y])[0], module(Y))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda y: torch.atanh(0.9 * torch.sin(y)), []),
        (lambda y: torch.atanh(y.clamp(-0.999, 0.999)), []),
        (lambda y: 0.5 * (torch.log1p(y) - torch.log1p(y)), []),
        (lambda y: 0.5 * (torch.log1p(y) + torch.log1p(-y)), []),
        (
            lambda y: torch.nan_to_num(torch.atanh(y)),
            ["the policy asks whether the result is finite, and answers that itself"],
        ),
    ],
)
def test_what_stays(function, reason):
    result = run_pass(RewriteAtanh, Unary(function), (Y,))
    assert not result.changed and reasons(result) == reason
