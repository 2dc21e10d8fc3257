"""decompose_mish."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from graphaudit.passes.decompose_mish import DecomposeMish
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

AWKWARD = torch.tensor(
    [
        [0.0, -0.0, 1.0, -1.0, 1e-30],
        [4.9, 5.1, 19.9, 20.1, 44.5],  # where the exponential is bounded, and where its square would overflow
        [-17.9, -87.0, -104.0, 88.8, 3e38],
        [float("inf"), float("nan"), -3e38, -1.1924, 1e-45],
    ]
)
SPELLINGS = [F.mish, lambda x: x * torch.tanh(F.softplus(x)), lambda x: F.softplus(x).tanh() * x]


@pytest.mark.parametrize("function", SPELLINGS)
def test_spellings(function):
    module = Unary(function)
    result = run_pass(DecomposeMish, module, (torch.zeros(2, 5),), ({0: "batch"},))
    assert ops(result.artifact) == ["clamp", "exp", "add", "mul", "add", "div", "mul"]
    for batch in (AWKWARD, AWKWARD[1:2]):
        assert_equivalent_where_finite(module, result.artifact, batch)
    assert_runs_alike(result.artifact, (AWKWARD[:3],), rtol=1e-6, atol=1e-7)


def test_float64():
    module, values = Unary(F.mish), torch.linspace(-40, 40, 2001, dtype=torch.float64)
    program = run_pass(DecomposeMish, module, (values,)).artifact
    assert_equivalent_where_finite(module, program, values)


def test_halves_stay():
    result = run_pass(DecomposeMish, Unary(F.mish), (AWKWARD.half(),))
    assert not result.changed and reasons(result) == ["each of its steps would round to float16"]


def test_a_softplus_that_is_read_elsewhere_stays_there():
    result = run_pass(DecomposeMish, Unary(lambda x: (x * (s := F.softplus(x)).tanh(), s)), (torch.zeros(2),))
    assert result.changed and "softplus" in ops(result.artifact) and "tanh" not in ops(result.artifact)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * F.softplus(x, beta=2).tanh(),
        lambda x: x * F.softplus(x, threshold=1).tanh(),
        lambda x: (x + 1) * F.softplus(x).tanh(),
        lambda x: x * x.tanh(),
        F.softplus,
    ],
)
def test_others_are_no_candidates(function):
    result = run_pass(DecomposeMish, Unary(function), (torch.ones(2),))
    assert not result.changed and not result.left
