"""decompose_median picks the element that torch picks."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.decompose_median import DecomposeMedian
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

INF, NAN = float("inf"), float("nan")
AWKWARD = torch.tensor(
    [[0.0, 0.0, 0.0, 0.0], [-1.0, 3e38, -3e38, 2.0], [1.0, NAN, 5.0, 2.0], [-INF, INF, 1.0, INF], [2.0, 1.0, 2.0, 1.0]]
)
CALLS = {
    "even": lambda x: x.median(-1).values,
    "odd": lambda x: x[:, :3].median(1).values,
    "first dimension, kept": lambda x: x.median(0, keepdim=True).values,
    "all": lambda x: x.median(),
    "one element": lambda x: x[:, :1].median(-1).values,
    "second smallest": lambda x: x.kthvalue(2, -1).values,
    "largest, kept": lambda x: x.kthvalue(5, 0, keepdim=True).values,
}


@pytest.mark.parametrize("call", CALLS)
def test_equivalent_on_awkward_inputs(call):
    module = Unary(CALLS[call])
    program = run_pass(DecomposeMedian, module, (AWKWARD,)).artifact
    assert not {"median", "kthvalue"} & set(ops(program))
    inputs = (AWKWARD, AWKWARD[[0, 1, 3, 4, 4]])
    for x in inputs:
        assert_equivalent_where_finite(module, program, x)
    assert_runs_alike(program, *((x,) for x in inputs))


@pytest.mark.parametrize("function", [lambda x: tuple(x.median(-1)), lambda x: tuple(x.kthvalue(3, -1, keepdim=True))])
def test_the_index_where_no_value_comes_twice(function):
    x = torch.tensor([[3.0, -1.0, 7.0, 0.0, 2.0], [1.0, 2.0, INF, -INF, 0.0]])
    module = Unary(function)
    program = run_pass(DecomposeMedian, module, (x,)).artifact
    assert_equivalent_where_finite(module, program, x)
    assert_runs_alike(program, (x,))


def test_the_index_of_a_median_that_is_nan():
    x = torch.tensor([[3.0, NAN, 7.0, NAN, 2.0]])
    program = run_pass(DecomposeMedian, Unary(lambda x: tuple(x.median(-1))), (x,)).artifact
    assert program.runner()([x])[1].tolist() == x.median(-1).indices.tolist() == [1]


def test_integers_and_a_varying_batch():
    module = Unary(CALLS["even"])
    program = run_pass(DecomposeMedian, module, (torch.ones(3, 4, dtype=torch.int64),), ({0: "batch"},)).artifact
    assert_equivalent_where_finite(module, program, torch.tensor([[4, 1, 3, 2]]))


@pytest.mark.parametrize(
    ("function", "dynamic", "reason"),
    [
        (lambda x: x.median(-1).values, ({1: "time"},), "the number of elements varies"),
        (lambda x: x.median(), ({0: "batch"},), "the number of elements varies"),
        (lambda x: x[:, :0].median(), None, "there are no elements"),
    ],
)
def test_what_stays(function, dynamic, reason):
    result = run_pass(DecomposeMedian, Unary(function), (AWKWARD,), dynamic)
    assert not result.changed
    assert reasons(result) == [reason]
