from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from graphaudit.equivalence.inputs import Sample, collect
from graphaudit.errors import PolicyError
from tests.equivalence.policies import Actor, Apply, normal_inputs, policy


def seen(samples: list[Sample], position: int = 0, family: str = "drawn") -> list[torch.Tensor]:
    return [s.tensors[position] for s in samples if s.family == family]


def test_example_first_then_the_users_inputs_then_drawn_ones() -> None:
    samples = collect(policy(Actor()), 128)
    assert [s.origin for s in samples[:3]] == ["example", "inputs(0)", "inputs(1)"]
    assert [sum(s.family == f for s in samples) for f in ("example", "inputs", "drawn")] == [1, 42, 85]
    assert torch.equal(samples[2].args[0], normal_inputs(1)[0])


def test_at_least_twenty_of_the_users_inputs() -> None:
    families = [s.family for s in collect(policy(Actor()), 30)]
    assert families.count("inputs") == 20
    assert len(collect(policy(Actor()), 1)) == 1


def test_same_seed_same_samples_and_global_generators_untouched() -> None:
    def careless(seed: int) -> tuple[torch.Tensor]:
        return (torch.randn(2, 4) + random.random() + float(np.random.rand()),)

    made = policy(Actor(), torch.ones(2, 4), inputs=careless)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    first = collect(made, 64, seed=3)
    assert torch.equal(before[0], torch.get_rng_state())
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before[1:]
    torch.rand(5), random.random(), np.random.rand()
    second, other = collect(made, 64, seed=3), collect(made, 64, seed=4)
    assert all(torch.equal(a.args[0], b.args[0]) for a, b in zip(first, second))
    assert not all(torch.equal(a.args[0], b.args[0]) for a, b in zip(first[1:], other[1:]))


def test_drawn_floats_are_scaled_from_what_was_seen_and_reach_beyond() -> None:
    scale = torch.tensor([100.0, 1.0, 0.01, 1.0])
    made = policy(Actor(), scale.repeat(2, 1), inputs=lambda s: (normal_inputs(s)[0] * scale,))
    samples = collect(made, 128)
    around = torch.cat([s.args[0] for s in samples if "around" in s.origin])
    assert 50 < float(around[:, 0].std()) < 200
    assert 0.005 < float(around[:, 2].std()) < 0.02
    drawn = seen(samples)
    assert any((t == 0).all() for t in drawn)
    assert any((t <= 0).all() and t.any() for t in drawn)
    assert max(float(t.abs().max()) for t in drawn) > 1e5
    values = {v for s in samples if s.family != "drawn" for v in s.args[0].flatten().tolist()}
    permuted = [s.args[0] for s in samples if "permuted" in s.origin]
    assert permuted and all(v in values for t in permuted for v in t.flatten().tolist())


def test_integers_stay_within_what_was_seen() -> None:
    def tokens(seed: int) -> tuple[torch.Tensor]:
        return (torch.randint(3, 9, (2, 5), generator=torch.Generator().manual_seed(seed)),)

    drawn = seen(collect(policy(Apply(lambda x: x + 1), *tokens(0), inputs=tokens), 64))
    assert min(int(t.min()) for t in drawn) == 3
    assert max(int(t.max()) for t in drawn) == 8
    assert {t.dtype for t in drawn} == {torch.int64}


@pytest.mark.parametrize(
    "example", [torch.zeros(1, 3, 16, 16, dtype=torch.uint8), torch.tensor([[7]], dtype=torch.uint8)]
)
def test_images_use_the_whole_byte(example: torch.Tensor) -> None:
    drawn = torch.cat([t.flatten() for t in seen(collect(policy(Apply(lambda x: x.float()), example), 64))])
    assert drawn.dtype == torch.uint8
    assert int(drawn.max()) > 200


def test_byte_flags_stay_flags() -> None:
    flags = torch.tensor([[0, 1, 1]], dtype=torch.uint8)
    drawn = seen(collect(policy(Apply(lambda x: x.float()), flags), 40))
    assert {v for t in drawn for v in t.flatten().tolist()} == {0, 1}


def test_masks_and_unit_values_stay_what_they_are() -> None:
    def masked(seed: int) -> tuple[torch.Tensor, ...]:
        g = torch.Generator().manual_seed(seed)
        mask = (torch.rand(2, 5, generator=g) > 0.5).float()
        mask[:, 0] = 1.0
        return mask, mask.bool(), torch.rand(2, 5, generator=g)

    samples = collect(policy(Apply(lambda m, b, u: m + b + u), *masked(0), inputs=masked), 64)
    masks, bools, units = (torch.cat(seen(samples, i)) for i in range(3))
    assert set(masks.flatten().tolist()) == {0.0, 1.0}
    assert bool((masks[:, 0] == 1).all() and bools[:, 0].all())  # what the user always sets stays set
    assert bools.dtype == torch.bool and not bool(bools.all())
    assert float(units.min()) >= 0 and float(units.max()) <= 1


def test_a_placeholder_of_ones_is_no_mask() -> None:
    drawn = torch.cat(seen(collect(policy(Actor(), torch.ones(2, 4)), 40)))
    assert len(drawn.unique()) > 100


def test_dynamic_dimensions_vary_together() -> None:
    made = policy(
        Apply(lambda x, m: x * m.unsqueeze(-1)),
        torch.randn(4, 7, 3), torch.ones(4, 7),
        dynamic_shapes=({0: "batch", 1: "time"}, {0: "batch", 1: "time"}),
    )  # fmt: skip
    shapes = [(tuple(s.args[0].shape), tuple(s.args[1].shape)) for s in collect(made, 128)]
    assert all(x[:2] == m and x[2] == 3 for x, m in shapes)
    assert {x[0] for x, _ in shapes} == {1, 2, 3, 4, 5}
    assert {x[1] for x, _ in shapes} == {1, 2, 3, 5, 7}
    assert len({x[:2] for x, _ in shapes}) > 10


def test_python_values_and_structure_are_the_examples() -> None:
    module = Apply(lambda obs, flag: obs["image"] * 2 if flag else obs["image"])
    drawn = [
        s for s in collect(policy(module, {"image": torch.rand(2, 3), "gain": 2}, True), 20) if s.family == "drawn"
    ]
    assert all(s.args[0]["gain"] == 2 and s.args[1] is True for s in drawn)


def test_half_precision_draws_stay_finite() -> None:
    drawn = seen(collect(policy(Apply(lambda x: x), torch.randn(2, 3).half() * 100), 64))
    assert all(t.dtype == torch.float16 and bool(t.isfinite().all()) for t in drawn)


def test_inputs_that_raise_are_named() -> None:
    def broken(seed: int) -> tuple[torch.Tensor]:
        if seed == 2:
            raise KeyError("obs")
        return normal_inputs(seed)

    with pytest.raises(PolicyError, match=r"inputs\(\) raises KeyError on seed 2 at .*test_inputs.py:\d+"):
        collect(policy(Actor(), torch.ones(2, 4), inputs=broken))
