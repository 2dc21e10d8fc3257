"""decompose_distances: every norm, batches, and points that coincide."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.decompose_distances import DecomposeDistances
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

INF, NAN = float("inf"), float("nan")
AWKWARD = torch.tensor([[0.0, 0.0, 0.0], [-0.0, 1.0, -1.0], [1e3, 1e3, 1e3], [1e19, 2.0, 0.0], [NAN, INF, 1.0]])
CENTRES = torch.tensor([[0.0, 0.0, 0.0], [1e3, 1e3, 1e3 + 1e-3], [1.0, -2.0, 3.0]])


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, 0.5, INF])
def test_every_norm(p):
    module = Unary(lambda x: torch.cdist(x, CENTRES.to(x.dtype), p, "donot_use_mm_for_euclid_dist"))
    program = run_pass(DecomposeDistances, module, (AWKWARD[:4],), ({0: "batch"},)).artifact
    assert not {"cdist", "_cdist_forward"} & set(ops(program))
    assert_equivalent_where_finite(module, program, AWKWARD[:3])
    assert_equivalent_where_finite(module, program, AWKWARD[:1])
    assert_runs_alike(program, (AWKWARD,), rtol=2e-6)


def test_batches_and_many_rows_keep_the_digits_of_short_distances():
    x = torch.rand(2, 30, 3, generator=torch.Generator().manual_seed(0)) + 100
    module = Unary(lambda x: torch.cdist(x, x))
    got = run_pass(DecomposeDistances, module, (x,)).artifact.runner()([x])[0]
    torch.testing.assert_close(got, torch.cdist(x.double(), x.double()).float(), rtol=1e-6, atol=1e-7)


def test_what_stays():
    result = run_pass(DecomposeDistances, Unary(lambda x: torch.cdist(x[:, :0], x[:, :0])), (AWKWARD,))
    assert not result.changed and reasons(result) == ["there are no columns"]
    result = run_pass(DecomposeDistances, Unary(lambda x: x.norm(dim=-1)), (AWKWARD,))
    assert not result.changed and not result.left
