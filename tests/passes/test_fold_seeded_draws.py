"""fold_seeded_draws."""

from __future__ import annotations

import torch
from torch import nn

from graphaudit.passes.fold_seeded_draws import FoldSeededDraws
from tests.passes.helpers import ops, reasons, run_pass

X = torch.tensor([[0.3, -1.2]])


class Seeded(nn.Module):
    """Draws twice from a generator of its own, and once from another."""

    def forward(self, x):
        one, two = torch.Generator().manual_seed(7), torch.Generator().manual_seed(8)
        first = torch.empty_like(x).normal_(generator=one)
        return x + first, torch.rand(3, generator=one), torch.randint(9, (4,), generator=two)


class Growing(nn.Module):
    """As many numbers as rows."""

    def forward(self, x):
        generator = torch.Generator().manual_seed(7)
        return x + torch.empty_like(x).normal_(generator=generator), torch.rand(2, generator=generator)


class Plain(nn.Module):
    """Draws from PyTorch's own generator."""

    def forward(self, x):
        return x + torch.randn(1, 2)


def test_seeded_draws_become_their_numbers():
    result = run_pass(FoldSeededDraws, Seeded(), (X,))
    assert len(result.rewritten) == 3
    assert ops(result.artifact) == ["add"]
    for x in (X, torch.full((1, 2), float("nan")), torch.tensor([[1e30, float("-inf")]])):
        for eager, got in zip(Seeded()(x), result.artifact.runner()([x]), strict=True):
            torch.testing.assert_close(got, eager, rtol=0, atol=0, equal_nan=True)


def test_sizes_that_vary_are_left_alone_and_so_is_what_follows():
    result = run_pass(FoldSeededDraws, Growing(), (torch.zeros(2, 1),), ({0: "batch"},))
    assert not result.changed
    assert reasons(result) == ["it depends on the arguments", "its generator has drawn what is not known here"]


def test_draws_from_the_global_generator_are_no_constants():
    result = run_pass(FoldSeededDraws, Plain(), (X,))
    assert not result.changed
    assert not result.left
