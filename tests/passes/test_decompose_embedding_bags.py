"""decompose_embedding_bags on bags of equal size."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.passes.decompose_embedding_bags import DecomposeEmbeddingBags
from tests.passes.helpers import ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

BAGS = torch.tensor([[0, 2, 2], [4, 1, 0], [3, 3, 3]])


class Bags(nn.Module):
    def __init__(self, mode: str, **options: object) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.bag = nn.EmbeddingBag(5, 4, mode=mode, **options)

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        return self.bag(i)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_alike_to_eager_and_in_onnx_runtime(mode):
    module = Bags(mode)
    result = run_pass(DecomposeEmbeddingBags, module, (BAGS,), ({0: "batch"},))
    assert len(result.rewritten) == 1 and "embedding_bag" not in ops(result.artifact)
    for bags in (BAGS, BAGS[:1], BAGS.repeat(3, 1)):
        torch.testing.assert_close(result.artifact.runner()([bags])[0], module(bags), rtol=1e-6, atol=1e-6)
        assert_runs_alike(result.artifact, (bags,), without="Loop", rtol=1e-6, atol=1e-6)


def test_weighted_bags():
    class Weighted(Bags):
        def forward(self, i: torch.Tensor) -> torch.Tensor:
            return self.bag(i, per_sample_weights=i.float() / 3)

    module = Weighted("sum")
    result = run_pass(DecomposeEmbeddingBags, module, (BAGS,))
    torch.testing.assert_close(result.artifact.runner()([BAGS])[0], module(BAGS), rtol=1e-6, atol=1e-6)


def test_what_stays():
    class Ragged(Bags):
        def forward(self, i: torch.Tensor) -> torch.Tensor:
            return self.bag(i.flatten(), torch.tensor([0, 2, 5]))

    assert reasons(run_pass(DecomposeEmbeddingBags, Ragged("sum"), (BAGS,))) == ["the bags differ in size"]
    padded = run_pass(DecomposeEmbeddingBags, Bags("sum", padding_idx=0), (BAGS,))
    assert reasons(padded) == ["it has a padding index"]
