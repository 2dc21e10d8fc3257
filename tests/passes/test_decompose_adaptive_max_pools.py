"""decompose_adaptive_max_pools with windows that overlap, divide and cover everything."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.passes.decompose_adaptive_max_pools import DecomposeAdaptiveMaxPools
from tests.passes.helpers import Unary, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

X = torch.randn(3, 2, 8, 7, generator=torch.Generator().manual_seed(0))
X[0, 0, 0, 0], X[1, 1, 3, 3] = float("inf"), float("nan")
CALLS = {
    "odd": nn.AdaptiveMaxPool2d((3, 5)),
    "one": nn.AdaptiveMaxPool2d(1),
    "same": nn.AdaptiveMaxPool2d((None, 2)),
    "one dimension": lambda x: nn.functional.adaptive_max_pool1d(x[:, 0], 1).squeeze(-1),
    "three dimensions": nn.AdaptiveMaxPool3d((1, 4, 2)),
}


@pytest.mark.parametrize("call", CALLS)
def test_exact_for_any_batch(call):
    module = Unary(CALLS[call])
    result = run_pass(DecomposeAdaptiveMaxPools, module, (X,), ({0: "batch"},))
    assert len(result.rewritten) == 1 and not any("adaptive" in name for name in ops(result.artifact))
    for x in (X, X[:1]):
        assert torch.equal(result.artifact.runner()([x])[0].nan_to_num(7.5), module(x).nan_to_num(7.5))
        assert_runs_alike(result.artifact, (x.nan_to_num(0.5),))  # insert_nan_guards sees to NaN in maxima


def test_what_stays():
    indices = run_pass(DecomposeAdaptiveMaxPools, Unary(nn.AdaptiveMaxPool2d(2, return_indices=True)), (X,))
    assert reasons(indices) == ["its indices are read"]
    varying = run_pass(DecomposeAdaptiveMaxPools, Unary(nn.AdaptiveMaxPool2d(2)), (X,), ({3: "width"},))
    assert reasons(varying) == ["the sizes vary"]
