"""decompose_cumulative on every length of scan, ties, NaN and infinities."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.decompose_cumulative import DecomposeCumulative
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

INF, NAN = float("inf"), float("nan")
AWKWARD = torch.tensor(
    [
        [0.0, 0.0, 0.0, 0.0, 0.0],
        [-1.0, 2.0, 2.0, -3.0, 2.0],
        [1.0, NAN, 5.0, NAN, 2.0],
        [-INF, -INF, 1.0, INF, INF],
        [300.0, -300.0, 299.0, 1e4, -1e4],
        [0.5, 1e-30, 1e-30, 0.5, 2.0],
        [-0.0, 0.0, 1e-38, -1e-38, 3e38],
    ]
)
CALLS = {
    "cumprod": lambda x: torch.cumprod(x, -1),
    "cumprod, float64": lambda x: torch.cumprod(x, 1, dtype=torch.float64),
    "cummax": lambda x: torch.cummax(x, -1).values,
    "cummax with indices": lambda x: tuple(torch.cummax(x, 1)),
    "cummin with indices": lambda x: tuple(torch.cummin(x, -1)),
    "logcumsumexp": lambda x: torch.logcumsumexp(x, -1),
    "first dimension": lambda x: torch.cummin(x, 0).values,
}


@pytest.mark.parametrize("call", CALLS)
def test_equivalent_on_awkward_inputs(call):
    module = Unary(CALLS[call])
    program = run_pass(DecomposeCumulative, module, (AWKWARD,)).artifact
    assert not [op for op in ops(program) if "cum" in op]
    assert_equivalent_where_finite(module, program, AWKWARD)
    if "64" not in call:
        assert_runs_alike(program, (AWKWARD,), rtol=1e-6)


@pytest.mark.parametrize("size", range(1, 10))
def test_any_length(size):
    module = Unary(CALLS["cummax with indices"])
    torch.manual_seed(size)
    x = torch.randint(0, 3, (4, size)).float()
    assert_equivalent_where_finite(module, run_pass(DecomposeCumulative, module, (x,)).artifact, x)


def test_a_varying_batch():
    module = Unary(CALLS["cumprod"])
    program = run_pass(DecomposeCumulative, module, (AWKWARD,), ({0: "batch"},)).artifact
    assert_equivalent_where_finite(module, program, AWKWARD[1:2])


def test_integers_are_multiplied_as_int64():
    module = Unary(CALLS["cumprod"])
    x = torch.tensor([[3, 5, -7]], dtype=torch.int32)
    assert_equivalent_where_finite(module, run_pass(DecomposeCumulative, module, (x,)).artifact, x)


def test_a_length_that_varies_stays():
    result = run_pass(DecomposeCumulative, Unary(CALLS["cumprod"]), (AWKWARD,), ({1: "time"},))
    assert not result.changed
    assert reasons(result) == ["the size of the dimension varies"]


def test_an_empty_dimension_stays():
    result = run_pass(DecomposeCumulative, Unary(CALLS["cumprod"]), (torch.ones(2, 0),))
    assert not result.changed
    assert reasons(result) == ["the dimension is empty"]
