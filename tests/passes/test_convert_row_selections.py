"""convert_row_selections: masks and unique, with and without layers between selection and sum."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.passes.convert_row_selections import ConvertRowSelections
from tests.passes.helpers import Function, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

INF, NAN = float("inf"), float("nan")
X = torch.tensor([[0.0, -1.0, 2.0], [NAN, 3e38, -3e38], [INF, -INF, 1.0], [5.0, 6.0, 7.0]])
ROWS = torch.tensor([True, False, False, True])
ELEMENTS = torch.tensor([[1, 0, 1], [0, 0, 0], [0, 0, 1], [1, 1, 1]]).bool()


class Masked(Function):
    """A policy of a tensor and a mask, with layers."""

    def __init__(self, function):
        super().__init__(function)
        torch.manual_seed(0)
        self.linear, self.embedding = nn.Linear(3, 5), nn.Embedding(9, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor):
        return self.function(self, x, mask)


class Tokens(Masked):
    """A policy of tokens, with an embedding."""

    def forward(self, ids: torch.Tensor):  # type: ignore[override]
        return self.function(self, ids)


def _branches(module, x, mask):
    rows = module.linear(x[mask])
    return torch.relu(rows).mean(0), (rows * rows).sum((0, 1)), (rows - 0.5 + module.linear.bias).sum(0, keepdim=True)


CALLS = {
    "sum of rows": (lambda s, x, m: x[m].sum(0), ROWS),
    "mean of rows": (lambda s, x, m: x[m].mean(0), ROWS),
    "mean of all in rows": (lambda s, x, m: x[m].mean(), ROWS),
    "sum of elements": (lambda s, x, m: x[m].sum(), ELEMENTS),
    "mean of elements, kept": (lambda s, x, m: x[m].mean(0, keepdim=True), ELEMENTS),
    "sum and mean": (lambda s, x, m: (x[m].sum((0, 1)), x[m].mean((0, 1), keepdim=True)), ROWS),
    "mask of two dimensions": (lambda s, x, m: x.view(2, 2, 3)[m.view(2, 2)].mean(0, keepdim=True), ROWS),
    "layers in between": (_branches, ROWS),
}


@pytest.mark.parametrize("call", CALLS)
def test_masks_on_awkward_inputs(call):
    function, mask = CALLS[call]
    module = Masked(function)
    program = run_pass(ConvertRowSelections, module, (X, mask)).artifact
    assert "index" not in ops(program)
    calls = [(X, chosen) for chosen in (mask, torch.ones_like(mask), torch.zeros_like(mask))]
    for given in calls:
        assert_equivalent_where_finite(module, program, *given)
    assert_runs_alike(program, *calls, without="NonZero", rtol=1e-6)


def test_a_varying_batch():
    module = Masked(lambda s, x, m: s.linear(x[m]).relu().mean(0))
    program = run_pass(ConvertRowSelections, module, (X, ROWS), ({0: "agents"}, {0: "agents"})).artifact
    assert_equivalent_where_finite(module, program, X[:1], ROWS[:1])


@pytest.mark.parametrize("ids", [[3, 1, 3, 8, 0], [2, 2, 2, 2, 2], [0, 1, 2, 3, 4]])
def test_unique(ids):
    module = Tokens(lambda s, ids: (s.embedding(torch.unique(ids)).mean(0), torch.unique(ids).sum()))
    example, ids = torch.tensor([1, 1, 0, 7, 5]), torch.tensor(ids)
    program = run_pass(ConvertRowSelections, module, (example,)).artifact
    assert "_unique2" not in ops(program)
    assert_equivalent_where_finite(module, program, ids)
    assert_runs_alike(program, (ids,), without="Unique", rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "mask", "reason"),
    [
        (lambda s, x, m: x[:, m].sum(1), ROWS[:3], "the mask is not the only index, over the first dimensions"),
        (
            lambda s, x, m: x[m].softmax(0).sum(0),
            ROWS,
            "aten.softmax.int reads the selected rows, and does not work row by row",
        ),
        (lambda s, x, m: x[m].sum(-1).sum(0), ROWS, "a sum over the selected rows keeps them apart"),
        (lambda s, x, m: x[m].sum(0) / x[m].shape[0], ROWS, "the number of selected rows is used"),
        (lambda s, x, m: x[m].relu(), ROWS, "output reads the selected rows, and does not work row by row"),
    ],
)
def test_what_stays(function, mask, reason):
    result = run_pass(ConvertRowSelections, Masked(function), (X, mask))
    assert reason in reasons(result)
    assert not result.changed or len(result.left) == 1


def test_the_inverse_of_unique_stays():
    module = Tokens(lambda s, ids: torch.unique(ids, return_inverse=True)[1])
    assert reasons(run_pass(ConvertRowSelections, module, (torch.tensor([1, 0]),))) == [
        "the inverse or the counts of unique are read"
    ]
