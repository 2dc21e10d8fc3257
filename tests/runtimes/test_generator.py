"""PyTorch's CPU stream on NumPy alone, held against PyTorch."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphaudit.runtimes.generator import Generator

MANY = 10**6
AVX2 = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
SHAPES = st.lists(st.integers(0, 9), max_size=3)
SEEDS = st.integers(0, 2**63 - 1)
STEPS = st.one_of(
    st.tuples(st.just("uniform"), SHAPES, st.sampled_from(["float32", "float64"]), st.just({})),
    st.tuples(
        st.just("normal"),
        SHAPES,
        st.sampled_from(["float16", "float32", "float64"]),
        st.sampled_from([{}, {"serial": 1}]),
    ),
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
        "normal": lambda: serial_normals(shape, kind) if parameters else torch.randn(shape, dtype=kind),
        "exponential": lambda: torch.empty(shape, dtype=kind).exponential_(),
        "randint": lambda: torch.randint(parameters["low"], parameters["high"], shape),
        "permutation": lambda: torch.randperm(parameters["n"]),
    }[distribution]()
    return drawn.numpy()


def serial_normals(shape, kind):
    """In a layout that is not contiguous, PyTorch's kernel draws one after the other."""
    return torch.empty(*shape, 2, dtype=kind)[..., 0].normal_()


def same(got, wanted):
    """To the last bit; without AVX2, PyTorch's own normals are others, within 2 units in the last place."""
    if AVX2 or got.dtype.kind != "f":
        return np.array_equal(got, wanted)
    return bool((np.abs(got - wanted) <= 2 * np.spacing(np.abs(wanted))).all())


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.lists(STEPS, min_size=1, max_size=6))
def test_any_sequence_of_draws_is_pytorchs(seed, steps):
    torch.manual_seed(seed)
    generator = Generator(seed)
    for step in steps:
        wanted, got = torch_draw(*step), generator.draw(*step)
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        assert same(got, wanted)


@pytest.mark.parametrize(
    ("distribution", "dtype", "parameters"),
    [
        ("uniform", "float32", {}),
        ("uniform", "float64", {}),
        ("exponential", "float32", {}),
        ("randint", "int64", {"low": 0, "high": 2**53}),
        ("randint", "int64", {"low": -5, "high": 95}),
        ("permutation", "int64", {"n": MANY}),
        ("normal", "float16", {}),
        ("normal", "float32", {}),
        ("normal", "float64", {}),
    ],
)
def test_a_million_draws_are_the_same_to_the_last_bit(distribution, dtype, parameters):
    torch.manual_seed(11)
    wanted = torch_draw(distribution, [MANY], dtype, parameters)
    assert same(Generator(11).draw(distribution, [MANY], dtype, parameters), wanted)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("count", [15, 16, 17, 31, 32, 33, 100])
def test_the_stream_goes_on_behind_any_number_of_normals(count, dtype):
    torch.manual_seed(3)
    generator = Generator(3)
    for _ in range(3):
        assert same(generator.normal([count], dtype), torch.randn(count, dtype=getattr(torch, dtype)).numpy())
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


def test_what_is_drawn_ahead_is_put_back():
    """Draws of one size are made several at once; draws of other kinds, and saved states, come in between."""
    choose = random.Random(0)
    for seed in range(12):
        ours, position = Generator(seed), torch.manual_seed(seed)
        for _ in range(40):
            kind = choose.choice(["block"] * 6 + ["few", "uniform", "odd", "saved"])
            if kind == "saved":
                saved = ours.get_state()
                ours = Generator(99) if choose.random() < 0.5 else ours
                ours.set_state(saved)
                continue
            size = {"block": 64, "few": 5, "uniform": 7, "odd": 37}[kind]
            draw = (ours.uniform, torch.rand) if kind == "uniform" else (ours.normal, torch.randn)
            assert np.array_equal(draw[0]((size,)), draw[1](size, generator=position).numpy())
