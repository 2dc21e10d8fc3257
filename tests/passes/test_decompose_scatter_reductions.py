"""decompose_scatter_reductions against torch, with places on which nothing falls and places on which much does."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.decompose_scatter_reductions import DecomposeScatterReductions
from tests.passes.helpers import Unary, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

INDEX = torch.tensor([[0, 2, 2, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
X = torch.tensor([[1.0, -2.0, 0.5, 3.0], [0.0, 1e30, -1e30, 2.0], [7.0, 1.0, 2.0, float("inf")]])
CALLS = {
    "mean": lambda x: torch.ones(3, 3).scatter_reduce(1, INDEX, x, "mean"),
    "mean without self": lambda x: torch.ones(3, 3).scatter_reduce(1, INDEX, x, "mean", include_self=False),
    "mean along rows": lambda x: torch.zeros(5, 4).scatter_reduce(0, INDEX, x, "mean", include_self=False),
    "an index smaller than the source": lambda x: torch.ones(3, 3).scatter_reduce(1, INDEX[:2, :2], x, "mean"),
    "index_reduce mean": lambda x: x.index_reduce(1, INDEX[0], x * 2, "mean"),
    "index_reduce amax": lambda x: x.index_reduce(0, torch.tensor([2, 0, 2]), x * 2, "amax"),
    "index_reduce prod": lambda x: x.index_reduce(1, INDEX[0], x + 1, "prod", include_self=False),
}


@pytest.mark.parametrize("call", CALLS)
def test_alike_to_eager_and_in_onnx_runtime(call):
    module = Unary(CALLS[call])
    result = run_pass(DecomposeScatterReductions, module, (X,))
    assert len(result.rewritten) == 1 and "index_reduce" not in ops(result.artifact)
    torch.testing.assert_close(result.artifact.runner()([X])[0], module(X), rtol=1e-6, atol=1e-6, equal_nan=True)
    assert_runs_alike(result.artifact, (X,))


def test_a_batch_that_varies():
    def edges(x):
        return torch.zeros(x.shape[0], 3).scatter_reduce(1, INDEX[:1].expand(x.shape[0], 4), x, "mean")

    program = run_pass(DecomposeScatterReductions, Unary(edges), (X,), ({0: "batch"},)).artifact
    for batch in (1, 5):
        x = torch.randn(batch, 4)
        torch.testing.assert_close(program.runner()([x])[0], edges(x))


def test_what_stays():
    integers = run_pass(
        DecomposeScatterReductions,
        Unary(lambda x: torch.ones(3, 3).long().scatter_reduce(1, INDEX, x.long(), "mean")),
        (X,),
    )
    assert reasons(integers) == ["the mean of integers is rounded down"]
    sums = run_pass(
        DecomposeScatterReductions, Unary(lambda x: torch.ones(3, 3).scatter_reduce(1, INDEX, x, "sum")), (X,)
    )
    assert not sums.changed and not sums.left
