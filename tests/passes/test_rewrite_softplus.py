"""rewrite_softplus."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.rewrite_softplus import RewriteSoftplus
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass

AWKWARD = torch.tensor(
    [
        [0.0, -0.0, 1.0, -1.0],
        [88.7, 88.8, 300.0, -300.0],  # around and beyond the overflow of float32
        [19.99, 20.0, 20.01, 37.5],  # around the thresholds of softplus
        [-16.5, -17.0, -90.0, -110.0],  # 1 + exp(x) rounds to 1; exp(x) underflows
        [float("inf"), float("-inf"), float("nan"), 1e-45],
    ]
)
SPELLINGS = [
    lambda x: torch.log(1 + torch.exp(x)),
    lambda x: (torch.exp(x) + 1.0).log(),
    lambda x: torch.log1p(torch.exp(x)),
    lambda x: torch.log(torch.ones_like(x) + torch.exp(x)),
    lambda x: torch.log(torch.tensor(1.0) + torch.exp(x)),
]


@pytest.mark.parametrize("function", SPELLINGS)
def test_softplus_in_its_usual_spellings(function):
    module = Unary(function)
    result = run_pass(RewriteSoftplus, module, (torch.zeros(2, 4),), ({0: "batch"},))
    assert ops(result.artifact) == ["softplus"]
    for batch in (AWKWARD, AWKWARD[1:2]):
        assert_equivalent_where_finite(module, result.artifact, batch)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_dtypes(dtype):
    module = Unary(SPELLINGS[2])
    result = run_pass(RewriteSoftplus, module, (torch.zeros(5, 4, dtype=dtype),))
    assert ops(result.artifact) == ["softplus"]
    assert_equivalent_where_finite(module, result.artifact, AWKWARD.to(dtype))


def test_integers_are_cast():
    result = run_pass(RewriteSoftplus, Unary(SPELLINGS[0]), (torch.zeros(2, dtype=torch.int64),))
    assert ops(result.artifact) == ["_to_copy", "softplus"]
    assert result.artifact.runner()([torch.tensor([100, -2])])[0].tolist() == pytest.approx([100.0, 0.126928], rel=1e-6)


def test_an_exp_with_other_readers_stays():
    result = run_pass(RewriteSoftplus, Unary(lambda x: (torch.log1p(e := torch.exp(x)), e)), (torch.zeros(2),))
    assert sorted(ops(result.artifact)) == ["exp", "softplus"]


def test_a_one_that_broadens_the_shape_is_left_alone():
    function = Unary(lambda x: torch.log(torch.ones(3, 2) + torch.exp(x)))
    result = run_pass(RewriteSoftplus, function, (torch.zeros(2),))
    assert not result.changed and reasons(result) == ["adding the 1 changes the shape"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.log(2 + torch.exp(x)),
        lambda x: torch.log(torch.add(torch.exp(x), 1, alpha=2)),
        lambda x: torch.log1p(x),
        lambda x: torch.log(1 - torch.exp(x)),
    ],
)
def test_other_logarithms_are_no_candidates(function):
    result = run_pass(RewriteSoftplus, Unary(function), (torch.zeros(2),))
    assert not result.changed and not result.left
