"""decompose_masked_scatter puts every value where torch puts it."""

from __future__ import annotations

import torch

from graphaudit.passes.decompose_masked_scatter import DecomposeMaskedScatter
from tests.passes.helpers import Function, Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

INF, NAN = float("inf"), float("nan")
X = torch.tensor([[0.0, NAN, 2.0, -3e38], [1.0, -0.0, INF, 7.0]])
VALUES = torch.tensor([[10.0, NAN, -INF], [3e38, 14.0, 15.0], [16.0, 17.0, 18.0]])
MASKS = [torch.tensor([[1, 0, 1, 1], [0, 1, 0, 1]]).bool(), torch.ones(2, 4).bool(), torch.zeros(2, 4).bool()]


class Scatter(Function):
    """A policy of slots, a mask and values."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor, values: torch.Tensor):
        return self.function(x, mask, values)


def test_equivalent_on_awkward_inputs_and_masks():
    module = Scatter(torch.masked_scatter)
    program = run_pass(DecomposeMaskedScatter, module, (X, MASKS[0], VALUES)).artifact
    assert "masked_scatter" not in ops(program)
    calls = [(X, mask, VALUES) for mask in MASKS]
    for call in calls:
        assert_equivalent_where_finite(module, program, *call)
    assert_runs_alike(program, *calls, without="NonZero")


def test_a_mask_that_is_broadcast_and_a_varying_batch():
    module = Scatter(lambda x, m, v: x.masked_scatter(m, v))
    mask = torch.tensor([[True], [False]])
    program = run_pass(DecomposeMaskedScatter, module, (X, mask, VALUES), ({0: "batch"}, {0: "batch"}, None)).artifact
    assert_equivalent_where_finite(module, program, X, mask, VALUES)
    assert_equivalent_where_finite(module, program, X[:1], mask[:1], VALUES)


def test_no_values_stay():
    module = Scatter(torch.masked_scatter)
    result = run_pass(DecomposeMaskedScatter, module, (X, MASKS[2], torch.ones(0)))
    assert not result.changed
    assert reasons(result) == ["there are no values"]


def test_masked_fill_is_no_scatter():
    result = run_pass(DecomposeMaskedScatter, Unary(lambda x: x.masked_fill(x > 0, 1.0)), (X,))
    assert not result.changed and not result.left
