"""convert_mask_writes writes what torch writes, and nothing where the mask is false."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.convert_mask_writes import ConvertMaskWrites
from tests.passes.helpers import Function, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

INF, NAN = float("inf"), float("nan")
X = torch.tensor([[0.0, -1.0, 2.0], [NAN, 3e38, -3e38], [INF, -INF, 1.0], [5.0, 6.0, 7.0]])
ROWS = torch.tensor([True, False, False, True])
ELEMENTS = torch.tensor([[1, 0, 1], [0, 0, 0], [0, 0, 1], [1, 1, 1]]).bool()


class Masked(Function):
    """A policy of a tensor and a mask."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor):
        return self.function(x, mask)


def _write(x, mask, value):
    x = x.clone()
    x[mask] = value
    return x


WRITES = {
    "a number": (lambda x, m: _write(x, m, -9999999.0), ELEMENTS),
    "a number in whole rows": (lambda x, m: _write(x, m, 0.0), ROWS),
    "an element": (lambda x, m: _write(x, m, x[0, 0]), ELEMENTS),
    "one row in many": (lambda x, m: _write(x, m, x[3]), ROWS),
    "an integer": (lambda x, m: _write(x, ~m, 7), ELEMENTS),
}


@pytest.mark.parametrize("call", WRITES)
def test_equivalent_on_awkward_inputs(call):
    function, mask = WRITES[call]
    module = Masked(function)
    program = run_pass(ConvertMaskWrites, module, (X, mask)).artifact
    assert not {"index_put", "index"} & set(ops(program))
    calls = [(X, chosen) for chosen in (mask, torch.ones_like(mask), torch.zeros_like(mask))]
    for call in calls:
        assert_equivalent_where_finite(module, program, *call)
    assert_runs_alike(program, *calls, without="NonZero", rtol=1e-6)


def test_a_varying_batch():
    module = Masked(lambda x, m: _write(x, m, 1.0))
    program = run_pass(ConvertMaskWrites, module, (X, ROWS), ({0: "agents"}, {0: "agents"})).artifact
    assert_equivalent_where_finite(module, program, X[:1], ROWS[:1])


def _accumulate(x, mask):
    return x.index_put((mask,), torch.ones(()), accumulate=True)


def _columns(x, mask):
    x = x.clone()
    x[:, mask] = 0.0
    return x


@pytest.mark.parametrize(
    ("function", "mask", "reason"),
    [
        (_accumulate, ELEMENTS, "it accumulates"),
        (lambda x, m: _write(x, m, x[:2]), ROWS, "the values differ from row to row"),
        (_columns, ROWS[:3], "the mask is not the only index, over the first dimensions"),
    ],
)
def test_what_stays(function, mask, reason):
    result = run_pass(ConvertMaskWrites, Masked(function), (X, mask))
    assert not result.changed
    assert reasons(result) == [reason]


def test_integer_indices_are_no_mask():
    result = run_pass(ConvertMaskWrites, Masked(lambda x, m: _write(x, m, 0.0)), (X, torch.tensor([0, 2])))
    assert not result.changed and not result.left
