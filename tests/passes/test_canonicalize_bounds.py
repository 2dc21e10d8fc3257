"""canonicalize_bounds."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.canonicalize_bounds import CanonicalizeBounds
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

AWKWARD = torch.tensor([[0.0, -0.0, 0.5, -3.0], [float("inf"), float("-inf"), 3e38, 1e-45]])
LOW, HIGH = torch.full((4,), -1.0), torch.full((4,), 0.25)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.clamp(LOW, HIGH),
        lambda x: x.clamp(LOW[:1], torch.full((1, 4), float("inf"))),
    ],
)
def test_numbers(call):
    module = Unary(call)
    result = run_pass(CanonicalizeBounds, module, (AWKWARD,), ({0: "batch"},))
    assert result.changed and set(ops(result.artifact)) == {"clamp"}
    for x in (AWKWARD, AWKWARD[:1], AWKWARD * float("nan")):
        assert_equivalent_where_finite(module, result.artifact, x)
    assert_runs_alike(result.artifact, (AWKWARD,))


def test_integers():
    module = Unary(lambda x: x.clamp(torch.tensor([2, 2]), torch.tensor(5)))
    result = run_pass(CanonicalizeBounds, module, (torch.arange(8).view(4, 2),))
    assert ops(result.artifact) == ["clamp"]
    assert_equivalent_where_finite(module, result.artifact, torch.arange(8).view(4, 2))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda x: x.clamp(torch.arange(4.0), HIGH), "not two constants"),
        (lambda x: x.clamp(LOW * float("nan"), HIGH), "not two constants"),
        (lambda x: torch.clamp(x, max=HIGH), "not two constants"),
        (lambda x: x.clamp(LOW, x.mean()), "not two constants"),
        (lambda x: x.clamp(LOW.double(), HIGH.double()).float(), "another dtype"),
        (lambda x: x[0].clamp(LOW.expand(3, 4), HIGH), "to another shape"),
    ],
)
def test_left_alone(call, reason):
    result = run_pass(CanonicalizeBounds, Unary(call), (AWKWARD,))
    assert not result.changed and reason in reasons(result)[0]
