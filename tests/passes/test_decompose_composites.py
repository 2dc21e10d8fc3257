"""decompose_composites: the batch stays open on the way to ONNX, and the numbers are torch's."""

from __future__ import annotations

import pytest
import torch

from graphaudit.graphs.open_sizes import open_sizes
from graphaudit.passes.decompose_composites import DecomposeComposites
from tests.passes.helpers import Unary, ops, run_pass
from tests.passes.translated import assert_runs_alike

X = torch.tensor([[0.0, -2.0, float("nan"), 3.0], [1e30, 0.5, -0.0, 7.0], [1.0, 1.0, 2.0, float("inf")]])
CALLS = {
    "sorted by itself": lambda x: torch.take_along_dim(x, x.nan_to_num(0).argsort(-1, descending=True), -1),
    "broadcast rows": lambda x: torch.take_along_dim(x, torch.tensor([[1, 0, 3]]), 1),
    "flat": lambda x: torch.take_along_dim(x, torch.tensor([2, 0])),
    "kron": lambda x: torch.kron(x, torch.tensor([[1.0, 2.0]])),
    "kron of other rank": lambda x: torch.kron(torch.tensor([1.0, -1.0]), x),
}


@pytest.mark.parametrize("call", CALLS)
def test_exact_for_any_batch(call):
    module = Unary(CALLS[call])
    with open_sizes():
        result = run_pass(DecomposeComposites, module, (X,), ({0: "batch"},))
    assert len(result.rewritten) == 1 and not {"take_along_dim", "kron"} & set(ops(result.artifact))
    for x in (X, X[:1], X.repeat(5, 1)):
        torch.testing.assert_close(result.artifact.runner()([x])[0], module(x), rtol=0, atol=0, equal_nan=True)
        assert_runs_alike(result.artifact, (x,))


def test_nothing_else_is_touched():
    result = run_pass(DecomposeComposites, Unary(lambda x: x.gather(1, x.argmax(1, keepdim=True))), (X,))
    assert not result.changed and not result.left
