"""How far the float64 copy is to be believed."""

from __future__ import annotations

import math

import pytest
import torch

from graphaudit.equivalence.eager import Eager
from graphaudit.equivalence.roundoff import Roundoff
from graphaudit.equivalence.verdict import Claim
from graphaudit.policy.isolation import Working
from tests.equivalence.policies import Apply, policy, reference, runner


def squashed(x: torch.Tensor) -> torch.Tensor:
    return torch.log(1 - torch.tanh(x) ** 2)


def stable(x: torch.Tensor) -> torch.Tensor:
    return 2 * (math.log(2) - x.abs() - torch.nn.functional.softplus(-2 * x.abs()))


def roundoff(function, x: torch.Tensor) -> torch.Tensor:
    made = policy(Apply(function), x)
    double = Eager(Working(made.module.double(), is_copy=True), made.interface, wide=True)
    measured = Roundoff(double)
    first, again = measured.of(0, (x,), {}, 0), measured.of(0, (x,), {}, 0)
    assert first is again
    return first


def test_an_accurate_answer_moves_by_units_in_the_last_place() -> None:
    moved = roundoff(stable, torch.tensor([[-18.0, -3.0, 0.5, 12.0]]))
    assert (moved > 0).any() and (moved < 1e-13).all()


def test_an_answer_that_cancels_moves_as_far_as_it_is_wrong() -> None:
    x = torch.tensor([[3.0, 12.0, 17.5, 18.4]])
    wrong = (squashed(x.double()) - stable(x.double())).abs()
    moved = roundoff(squashed, x)
    assert (wrong <= 8 * moved).all()
    assert moved[0, 0] < 1e-12 and moved[0, 3] > 0.1


def test_copies_move_by_a_unit_and_integers_do_not() -> None:
    assert (roundoff(lambda x: x.reshape(-1).unsqueeze(0)[:, 1:], torch.ones(1, 4)) < 1e-15).all()
    assert not roundoff(lambda x: x.argmax(-1), torch.ones(1, 4)).any()


def test_a_forward_that_raises_has_no_answer() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("not in float64")

    double = Eager(Working(Apply(fails), is_copy=True), policy(Apply(lambda x: x)).interface)
    assert Roundoff(double).of(0, (torch.ones(2, 4),), {}, 0) is None


@pytest.mark.parametrize(("offset", "claim"), [(0.0, Claim.WHERE_FINITE), (4.0, Claim.DIVERGED)])
def test_a_repair_is_accepted_where_float64_is_wrong_and_only_as_far_as_it_is(offset: float, claim: Claim) -> None:
    # 9.5: -inf in float32, right in float64; 18.4: -inf in float32, wrong by 0.1 in float64.
    x = torch.tensor([[0.5, 2.0, 9.5, 18.4]])
    ref = reference(Apply(squashed), x, count=1)

    def repaired(given: torch.Tensor) -> torch.Tensor:
        return stable(given) - offset * (given > 9)

    verdict = ref.check("repair", runner(Apply(repaired)), Claim.WHERE_FINITE)
    assert verdict.claim is claim
