"""rewrite_log_sigmoid."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from graphaudit.passes.rewrite_log_sigmoid import RewriteLogSigmoid
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

AWKWARD = torch.tensor(
    [
        [0.0, -0.0, 1.0, -1.0],
        [16.6, 16.7, 300.0, -300.0],  # 1 - sigmoid rounds to 0
        [-17.9, -18.1, -87.0, -104.0],  # ONNX Runtime's sigmoid ends; sigmoid becomes subnormal, and 0
        [20.1, 37.1, -20.1, 1e-45],
        [float("inf"), float("-inf"), float("nan"), 88.8],
    ]
)
SPELLINGS = [
    lambda x: torch.sigmoid(x).log(),
    lambda x: F.logsigmoid(x),
    lambda x: torch.log(1 - torch.sigmoid(x)),
    lambda x: torch.log(torch.ones_like(x) - torch.sigmoid(x)),
    lambda x: torch.log1p(-torch.sigmoid(x)),
]


@pytest.mark.parametrize("function", SPELLINGS)
def test_spellings(function):
    module = Unary(function)
    result = run_pass(RewriteLogSigmoid, module, (torch.zeros(2, 4),), ({0: "batch"},))
    assert result.changed and not {"log", "log1p", "log_sigmoid"} & set(ops(result.artifact))
    for batch in (AWKWARD, AWKWARD[1:2]):
        assert_equivalent_where_finite(module, result.artifact, batch)
    assert_runs_alike(result.artifact, (AWKWARD,), rtol=1e-5, atol=3e-8)


def test_float64():
    module = Unary(SPELLINGS[0])
    program = run_pass(RewriteLogSigmoid, module, (AWKWARD.double(),)).artifact
    assert_equivalent_where_finite(module, program, AWKWARD.double())


def test_a_sigmoid_with_other_readers_stays():
    result = run_pass(RewriteLogSigmoid, Unary(lambda x: ((s := torch.sigmoid(x)).log(), s)), (torch.zeros(2),))
    assert "sigmoid" in ops(result.artifact) and "softplus" in ops(result.artifact)


def test_an_epsilon_is_left_alone():
    result = run_pass(RewriteLogSigmoid, Unary(lambda x: (1 - torch.sigmoid(x) + 1e-6).log()), (torch.zeros(2),))
    assert not result.changed and reasons(result) == ["1e-06 is added before the log"]


@pytest.mark.parametrize("function", [lambda x: x.log(), lambda x: (2 - torch.sigmoid(x)).log(), torch.sigmoid])
def test_others_are_no_candidates(function):
    result = run_pass(RewriteLogSigmoid, Unary(function), (torch.ones(2),))
    assert not result.changed and not result.left
