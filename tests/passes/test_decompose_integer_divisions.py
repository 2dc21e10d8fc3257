"""decompose_integer_divisions keeps integers that float32 does not hold."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.decompose_integer_divisions import DecomposeIntegerDivisions
from tests.passes.helpers import Unary, run_pass
from tests.passes.translated import assert_runs_alike

X = torch.tensor([[0, 1, -1, 7], [-7, 2**24 + 1, -(2**31) + 1, 2**31 - 1]])


@pytest.mark.parametrize("mode", ["floor", "trunc"])
@pytest.mark.parametrize("divisor", [3, -3, 1])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_quotients_are_exact(mode, divisor, dtype):
    module, x = Unary(lambda x: torch.div(x, divisor, rounding_mode=mode)), X.to(dtype)
    result = run_pass(DecomposeIntegerDivisions, module, (x,), ({0: "batch"},))
    assert len(result.rewritten) == 1
    assert torch.equal(result.artifact.runner()([x])[0], module(x))
    assert_runs_alike(result.artifact, (x,))


def test_quotients_of_tensors():
    module = Unary(lambda x: torch.div(x[:, :2], x[:, 2:] * 2 + 1, rounding_mode="trunc"))
    result = run_pass(DecomposeIntegerDivisions, module, (X,))
    assert torch.equal(result.artifact.runner()([X])[0], module(X))
    assert_runs_alike(result.artifact, (X,))


def test_quotients_of_floats_stay():
    result = run_pass(DecomposeIntegerDivisions, Unary(lambda x: torch.div(x, 3, rounding_mode="floor")), (X.float(),))
    assert not result.changed and not result.left
