"""canonicalize_reductions: what torch's exporter has no translation for."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.canonicalize_reductions import CanonicalizeReductions
from tests.passes.helpers import Unary, assert_equivalent_where_finite, run_pass
from tests.passes.translated import assert_runs_alike

AWKWARD = torch.tensor([[0.0, -0.0, 3e38], [-3e38, 1.0, float("inf")]])


@pytest.mark.parametrize("call", [lambda x: x.amax(), lambda x: x.amin((), keepdim=True), lambda x: x.sum().amax()])
def test_a_whole_tensor(call):
    module = Unary(call)
    result = run_pass(CanonicalizeReductions, module, (AWKWARD,), ({0: "batch"},))
    assert result.changed
    for x in (AWKWARD, AWKWARD[:1], AWKWARD * float("nan")):
        assert_equivalent_where_finite(module, result.artifact, x)
    assert_runs_alike(result.artifact, (AWKWARD,))


@pytest.mark.parametrize(
    "call", [lambda x: x.amax(-1), lambda x: x.amin((0, 1)), lambda x: x.sort(-1).values, lambda x: x.sum()]
)
def test_named_dimensions_stay(call):
    result = run_pass(CanonicalizeReductions, Unary(call), (AWKWARD,))
    assert not result.changed and not result.left
