"""rewrite_log_products: long products through their logarithms."""

from __future__ import annotations

import math

import pytest
import torch

from graphaudit.passes.rewrite_log_products import RewriteLogProducts
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

SMALL = torch.full((2, 100), math.log(0.01 / 0.99))  # sigmoid gives 0.01
MIXED = torch.cat([SMALL[:1], torch.linspace(-3, 3, 100)[None]])

FIRES = {
    "prod": lambda x: torch.log(torch.sigmoid(x).prod(-1)),
    "prod of all": lambda x: torch.log(torch.sigmoid(x).prod()),
    "kept": lambda x: torch.log2(torch.sigmoid(x).prod(-1, keepdim=True)),
    "cumprod": lambda x: torch.log(torch.sigmoid(x).cumprod(-1)),
    "mul": lambda x: torch.log(torch.sigmoid(x) * torch.sigmoid(x - 1) * torch.sigmoid(x + 1)),
    "any size": lambda x: torch.log10(x.exp().prod(-1)),
    "geometric mean": lambda x: x.exp().prod(-1) ** (1 / 100),
    "root": lambda x: torch.sqrt(torch.softmax(x, -1).prod(-1)),
}


@pytest.mark.parametrize("spelling", FIRES)
def test_equivalent_where_finite(spelling):
    module = Unary(FIRES[spelling])
    result = run_pass(RewriteLogProducts, module, (MIXED,), ({0: "batch"},))
    assert len(result.rewritten) == 1
    for x in (MIXED, SMALL, MIXED[1:], MIXED[1:] / 30, -SMALL):
        assert_equivalent_where_finite(module, result.artifact, x)


def test_what_float32_cannot_hold():
    for spelling, exact in (("prod", 100 * math.log(0.01)), ("geometric mean", 0.01 / 0.99)):
        program = run_pass(RewriteLogProducts, Unary(FIRES[spelling]), (SMALL,)).artifact
        torch.testing.assert_close(program.runner()([SMALL])[0], torch.full((2,), exact), rtol=1e-5, atol=0)
        assert_runs_alike(program, (SMALL,), rtol=1e-5)


def test_a_normal_product_is_taken_as_it_is():
    module = Unary(FIRES["any size"])
    program = run_pass(RewriteLogProducts, module, (MIXED,)).artifact
    x = torch.randn(2, 100, generator=torch.Generator().manual_seed(0))
    assert torch.equal(program.runner()([x])[0], module(x))


def test_of_probabilities_the_product_goes():
    assert "prod" not in ops(run_pass(RewriteLogProducts, Unary(FIRES["prod"]), (SMALL,)).artifact)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: torch.log(x.prod(-1)), ["the factors can be negative"]),
        (lambda x: torch.log(torch.sigmoid(x) * x), []),
        (lambda x: torch.log(torch.sigmoid(x) * (x > 0)), []),
        (lambda x: torch.sigmoid(x).prod(-1), []),
        (lambda x: torch.sigmoid(x).prod(-1) ** 2, []),
    ],
)
def test_what_stays(function, reason):
    result = run_pass(RewriteLogProducts, Unary(function), (SMALL,))
    assert not result.changed and reasons(result) == reason
