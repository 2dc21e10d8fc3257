"""convert_bool_arithmetic: all four pairs of truth values, in ONNX Runtime too."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.convert_bool_arithmetic import ConvertBoolArithmetic
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

AWKWARD = torch.tensor([[0.0, -0.0, 1.0, float("nan")], [-1.0, 2.0, 0.5, float("inf")], [3.0, 0.1, -2.0, 1e-45]])


def masks(x):
    return x > 0, x < 1


CALLS = {
    "add": lambda x: torch.add(*masks(x)),
    "maximum": lambda x: torch.maximum(*masks(x)),
    "minimum": lambda x: torch.minimum(*masks(x)),
    "amax": lambda x: masks(x)[0].amax((0, 1)),
    "amin": lambda x: masks(x)[0].amin(-1, keepdim=True),
    "max": lambda x: masks(x)[0].max(),
    "min": lambda x: masks(x)[1].min(),
    "gt": lambda x: torch.gt(*masks(x)),
    "ge": lambda x: torch.ge(*masks(x)),
    "lt": lambda x: torch.lt(*masks(x)),
    "le": lambda x: torch.le(*masks(x)),
    "sort": lambda x: masks(x)[0].sort(-1).values,
    "where": lambda x: torch.where(x[:, :1] > 0, *masks(x)),
    "where, one number": lambda x: torch.where(x > 0.1, masks(x)[1], False),
    "where, number first": lambda x: torch.where(x > 0.1, True, masks(x)[1]),
    "where, two numbers": lambda x: torch.where(x > 0.1, True, False),
    "masked_fill": lambda x: masks(x)[0].masked_fill(x < 1, False),
    "masked_fill, tensor": lambda x: masks(x)[0].masked_fill(x < 1, torch.tensor(True)),
}


@pytest.mark.parametrize("call", CALLS)
def test_exact(call):
    module = Unary(CALLS[call])
    result = run_pass(ConvertBoolArithmetic, module, (AWKWARD,), ({0: "batch"},))
    assert result.changed
    for x in (AWKWARD, AWKWARD[:1]):
        assert_equivalent_where_finite(module, result.artifact, x)
    assert_runs_alike(result.artifact, (AWKWARD,))


def test_a_scaled_sum_stays():
    result = run_pass(ConvertBoolArithmetic, Unary(lambda x: torch.add(*masks(x), alpha=False)), (AWKWARD,))
    assert not result.changed and reasons(result) == ["the second mask is scaled before it is added"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x > 0) + x,
        lambda x: (x > 0) & (x < 1),
        lambda x: (x > 0).sum(-1),
        lambda x: torch.where(x > 0, x < 1, 0.5),
        lambda x: torch.where(x > 0, 1, 0),
        lambda x: x.masked_fill(x > 0, True),
    ],
)
def test_numbers_and_logic_are_no_candidates(function):
    result = run_pass(ConvertBoolArithmetic, Unary(function), (AWKWARD,))
    assert not result.changed and not result.left
    assert ops(result.artifact)
