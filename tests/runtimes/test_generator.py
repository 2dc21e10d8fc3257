"""PyTorch's CPU stream on NumPy alone, held against PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphaudit.runtimes.generator import Generator

MANY = 10**6
SHAPES = st.lists(st.integers(0, 9), max_size=3)
SEEDS = st.integers(0, 2**63 - 1)
STEPS = st.one_of(
    st.tuples(st.just("uniform"), SHAPES, st.sampled_from(["float32", "float64"]), st.just({})),
    st.tuples(st.just("normal"), SHAPES, st.sampled_from(["float32", "float64"]), st.just({})),
    st.tuples(st.just("exponential"), SHAPES, st.sampled_from(["float32", "float64"]), st.just({})),
    st.tuples(st.just("randint"), SHAPES, st.just("int64"), st.builds(
        lambda low, span: {"low": low, "high": low + span},
        st.integers(-(2**40), 2**40),
        st.one_of(st.integers(1, 99), st.integers(2**28 - 2, 2**28 + 2), st.integers(2**32 - 2, 2**53)),
    )),
    st.tuples(st.just("permutation"), st.just([]), st.just("int64"), st.builds(lambda n: {"n": n}, st.integers(0, 60))),
)  # fmt: skip


def torch_draw(distribution, shape, dtype, parameters):
    kind = getattr(torch, dtype)
    drawn = {
        "uniform": lambda: torch.rand(shape, dtype=kind),
        "normal": lambda: torch.randn(shape, dtype=kind),
        "exponential": lambda: torch.empty(shape, dtype=kind).exponential_(),
        "randint": lambda: torch.randint(parameters["low"], parameters["high"], shape),
        "permutation": lambda: torch.randperm(parameters["n"]),
    }[distribution]()
    return drawn.numpy()


def units_apart(got, wanted):
    """The largest difference in units in the last place of what is wanted."""
    return float((np.abs(got - wanted) / np.spacing(np.abs(wanted))).max(initial=0.0))


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.lists(STEPS, min_size=1, max_size=6))
def test_any_sequence_of_draws_is_pytorchs(seed, steps):
    torch.manual_seed(seed)
    generator = Generator(seed)
    for step in steps:
        wanted, got = torch_draw(*step), generator.draw(*step)
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        if step[0] == "normal":
            assert units_apart(got, wanted) <= 2
        else:
            assert np.array_equal(got, wanted)


@pytest.mark.parametrize(
    ("distribution", "parameters"),
    [
        ("uniform", {}),
        ("exponential", {}),
        ("randint", {"low": 0, "high": 2**53}),
        ("randint", {"low": -5, "high": 95}),
    ],
)
def test_a_million_draws_are_the_same_to_the_last_bit(distribution, parameters):
    torch.manual_seed(11)
    wanted = torch_draw(distribution, [MANY], "float32", parameters)
    assert np.array_equal(Generator(11).draw(distribution, [MANY], "float32", parameters), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_million_normals_are_within_two_units_in_the_last_place(dtype):
    torch.manual_seed(12)
    wanted = torch_draw("normal", [MANY], dtype, {})
    got = Generator(12).normal([MANY], dtype)
    assert units_apart(got, wanted) <= 2
    assert (got == wanted).mean() > 0.99


@pytest.mark.parametrize("count", [15, 16, 17, 31, 32, 33, 100])
def test_the_stream_goes_on_behind_any_number_of_normals(count):
    torch.manual_seed(3)
    generator = Generator(3)
    for _ in range(3):
        assert units_apart(generator.normal([count]), torch.randn(count).numpy()) <= 2
        assert np.array_equal(generator.uniform([4]), torch.rand(4).numpy())


def test_a_saved_state_goes_on_where_it_was():
    generator = Generator(5)
    generator.normal([3])  # leaves the second of a pair behind
    saved = json.loads(json.dumps(generator.get_state()))
    wanted = [generator.normal([5]), generator.permutation(9)]
    other = Generator(99)
    other.set_state(saved)
    assert all(np.array_equal(a, b) for a, b in zip([other.normal([5]), other.permutation(9)], wanted, strict=True))


def test_seeding_again_starts_over():
    generator = Generator(5)
    first = generator.normal([3])
    generator.seed(5)
    assert np.array_equal(generator.normal([3]), first)


def test_it_needs_no_torch():
    code = (
        "import sys, graphaudit.runtimes.generator as g; g.Generator(1).normal([20]); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
