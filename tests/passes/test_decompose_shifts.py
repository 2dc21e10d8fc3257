"""decompose_shifts: exact, negative numbers and overflow included, and never by itself."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.decompose_shifts import DecomposeShifts
from graphaudit.rewrite.selection import select
from tests.passes.helpers import Unary, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

X = torch.tensor([[0, 1, -1, 5], [-7, 2**30, -(2**31), 2**31 - 1]])
CALLS = {
    "left": lambda x: x << 3,
    "right": lambda x: x >> 2,
    "none": lambda x: (x << 0) + (x >> 0),
    "functions": lambda x: torch.bitwise_left_shift(x, 1) + torch.bitwise_right_shift(x, 5),
}


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("call", CALLS)
def test_alike_to_eager_and_in_onnx_runtime(call, dtype):
    module, x = Unary(CALLS[call]), X.to(dtype)
    result = run_pass(DecomposeShifts, module, (x,), ({0: "batch"},))
    assert result.changed and not any("shift" in name for name in ops(result.artifact))
    assert torch.equal(result.artifact.runner()([x])[0], module(x))
    assert_runs_alike(result.artifact, (x,))


def test_shifts_by_all_bits_stay():
    result = run_pass(DecomposeShifts, Unary(lambda x: x << 63), (X,))
    assert not result.changed and reasons(result) == ["it shifts by 63 bits"]


def test_it_runs_only_where_it_is_asked_for():
    assert "decompose_shifts" not in {p.name for p in select()}
