"""Two-sample tests: what they let pass, and what they find."""

from __future__ import annotations

import pytest
import torch

from graphaudit.equivalence.distribution import DRAWS, compare_distributions, limit

OFF = 0.3  # of the standard deviation: the least shift that a test of this size has to see


def series(make, seed):
    generator = torch.Generator().manual_seed(seed)
    return [make(generator) for _ in range(DRAWS)]


def normals(generator):
    return torch.randn(2, 3, generator=generator)


def mixed(generator):
    """A value that is drawn half of the time, as on one side of a branch, and a whole number."""
    coin = torch.rand((), generator=generator) < 0.5
    action = torch.randint(4, (), generator=generator)
    return torch.stack([torch.where(coin, 0.3, torch.randn((), generator=generator)), action.float()])


@pytest.mark.parametrize("make", [normals, mixed])
def test_equal_distributions_pass(make):
    for seed in range(0, 40, 2):
        assert compare_distributions(series(make, seed), series(make, seed + 1)) is None


@pytest.mark.parametrize("make", [normals, mixed])
def test_rounding_is_no_difference(make):
    one = series(make, 1)
    assert compare_distributions(one, [t * (1 + 3e-7) for t in series(make, 2)]) is None


def test_a_shift_a_spread_and_another_dependence_are_found():
    one, other = series(normals, 1), series(normals, 2)
    shifted = [t + torch.tensor([[0, 0, 0], [0, OFF, 0]]) for t in other]
    assert "element 4 is of another distribution" in compare_distributions(one, shifted)
    assert "element" in compare_distributions(one, [t * 1.6 for t in other])
    tied = [t[:, :1].expand(2, 3) for t in other]  # every element is as before; three of them are one
    assert "the elements taken together" in compare_distributions(one, tied)


def test_one_frozen_sample_and_nan_are_found():
    one = series(normals, 1)
    assert compare_distributions(one, [one[0]] * DRAWS) is not None
    assert compare_distributions(one, [t * torch.nan for t in one]) is not None


def test_the_limit_grows_with_the_number_of_tests():
    assert limit(1) < limit(100) < 0.15
