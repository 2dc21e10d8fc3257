"""decompose_expm1: the digits of small arguments, in ONNX Runtime too."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.decompose_expm1 import DecomposeExpm1
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

INF, NAN = float("inf"), float("nan")
AWKWARD = torch.tensor([[0.0, -0.0, 1e-6, -1e-6], [1.0, -1.0, 30.0, -30.0], [88.0, 90.0, -90.0, -400.0]])
BEYOND = torch.tensor([[INF, -INF, NAN, 3e38]])
SPELLINGS = [torch.expm1, lambda x: x.exp() - 1, lambda x: torch.exp(x) + -1.0]


@pytest.mark.parametrize("function", SPELLINGS)
def test_spellings(function):
    module = Unary(function)
    result = run_pass(DecomposeExpm1, module, (torch.zeros(2, 4),), ({0: "batch"},))
    assert result.changed and "sinh" in ops(result.artifact)
    for batch in (AWKWARD, AWKWARD[:1], BEYOND):
        assert_equivalent_where_finite(module, result.artifact, batch)
    assert_runs_alike(result.artifact, (AWKWARD,), (BEYOND,), rtol=1e-6)


def test_small_arguments_keep_their_digits():
    x = torch.logspace(-20, 1.9, 400)[None]
    x = torch.cat([x, -x])
    got = run_pass(DecomposeExpm1, Unary(SPELLINGS[1]), (x,)).artifact.runner()([x])[0]
    torch.testing.assert_close(got.double(), torch.expm1(x.double()), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("function", "x", "reason"),
    [
        (torch.expm1, torch.zeros(2, dtype=torch.float16), ["the input is float16"]),
        (lambda x: x.exp() - torch.ones(3, 2), torch.zeros(2), ["subtracting the 1 changes the shape"]),
        (lambda x: x.exp() - 2, torch.zeros(2), []),
        (lambda x: torch.sub(x.exp(), 1, alpha=2), torch.zeros(2), []),
    ],
)
def test_what_stays(function, x, reason):
    result = run_pass(DecomposeExpm1, Unary(function), (x,))
    assert not result.changed and reasons(result) == reason
