"""decompose_special_functions at float32 and float64, over the whole range and at the poles."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.decompose_special_functions import DecomposeSpecialFunctions
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

INF, NAN = float("inf"), float("nan")
POLES = torch.tensor([0.0, -0.0, -1.0, -2.0, -3.5, 1.0, 2.0, INF, NAN, 3e38, 1e-38, -1e-30])
RANGE = torch.cat([torch.linspace(1e-3, 12, 4001), torch.logspace(-20, 20, 401), torch.linspace(-7.75, -0.25, 16)])
INSIDE = torch.cat([torch.linspace(-1, 1, 4001), 1 - torch.logspace(-7, -1, 50), POLES])
CALLS = {
    "erfinv": (torch.erfinv, INSIDE),
    "special.erfinv": (torch.special.erfinv, INSIDE),
    "lgamma": (torch.lgamma, torch.cat([POLES, RANGE])),
    "digamma": (torch.digamma, torch.cat([POLES, RANGE])),
}


@pytest.mark.parametrize("call", CALLS)
def test_element_by_element_within_8_units_of_float64(call):
    function, x = CALLS[call]
    program = run_pass(DecomposeSpecialFunctions, Unary(function), (x,)).artifact
    got, want, truth = program.runner()([x])[0], function(x), function(x.double())
    assert torch.equal(got.isnan(), want.isnan())
    assert torch.equal(got[want.isinf()], want[want.isinf()])
    finite = want.isfinite()
    unit = torch.finfo(torch.float32).eps * truth.abs().clamp(min=0.0 if "erfinv" in call else 1.0)
    assert ((got - truth).abs() <= 8 * unit)[finite].all()


@pytest.mark.parametrize("call", CALLS)
def test_float64_within_1e_14(call):
    function, x = CALLS[call]
    x = x[x > -0.9].double()
    program = run_pass(DecomposeSpecialFunctions, Unary(function), (x,)).artifact
    torch.testing.assert_close(program.runner()([x])[0], function(x), rtol=1e-14, atol=1e-14, equal_nan=True)


@pytest.mark.parametrize("call", CALLS)
def test_equivalent_on_awkward_inputs(call):
    function, x = CALLS[call]
    module = Unary(function)
    program = run_pass(DecomposeSpecialFunctions, module, (x,), ({0: "batch"},)).artifact
    assert call not in ops(program)
    assert_equivalent_where_finite(module, program, x[20:])
    assert_equivalent_where_finite(module, program, x[:1])
    assert_runs_alike(program, (x,), rtol=2e-6, atol=2e-6)


PROBABILITIES = torch.cat([torch.linspace(0, 1, 2001), torch.logspace(-37, -2, 200), torch.tensor([-0.1, 1.1, NAN])])


def test_quantiles_of_the_normal_distribution():
    program = run_pass(
        DecomposeSpecialFunctions, Unary(torch.special.ndtri), (PROBABILITIES,), ({0: "batch"},)
    ).artifact
    got, truth = program.runner()([PROBABILITIES])[0], torch.special.ndtri(PROBABILITIES.double())
    assert torch.equal(got.isnan(), truth.isnan()) and torch.equal(got[truth.isinf()].double(), truth[truth.isinf()])
    finite = truth.isfinite()
    assert ((got - truth).abs() <= 8 * torch.finfo(torch.float32).eps * truth.abs())[finite].all()
    assert_runs_alike(program, (PROBABILITIES,), rtol=2e-6, atol=2e-6)


PAIRS = torch.cartesian_prod(*[torch.tensor([0.0, -0.0, 3.0, -4.0, 1e-30, 1e30, 3e38, -90.0, INF, -INF])] * 2)
OF_TWO = {
    "atan2": torch.atan2,
    "atan2, of whole numbers": lambda y, x: torch.atan2(y.sign().long(), x.sign().long()).to(x.dtype),
    "copysign": torch.copysign,
    "copysign, a number": lambda x, y: torch.minimum(torch.copysign(x, -0.0), y),
    "signbit": lambda x, y: torch.signbit(x) == torch.signbit(y),
    "fmax": lambda x, y: torch.fmax(torch.where(x == 3, NAN, x), torch.where(y == -4, NAN, y)).nan_to_num(1.5),
    "fmin": lambda x, y: torch.fmin(torch.where(x == 3, NAN, x), torch.where(y == -4, NAN, y)).nan_to_num(1.5),
    "hypot": torch.hypot,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
}


@pytest.mark.parametrize("call", OF_TWO)
def test_functions_of_two(call):
    module = Unary(lambda x: OF_TWO[call](x[:, 0], x[:, 1]))
    program = run_pass(DecomposeSpecialFunctions, module, (PAIRS,), ({0: "batch"},)).artifact
    assert call not in ops(program)
    got, want = program.runner()([PAIRS])[0], module(PAIRS)
    torch.testing.assert_close(got, want, rtol=1e-6, atol=0, equal_nan=True)
    half = run_pass(DecomposeSpecialFunctions, module, (PAIRS.half(),)).artifact
    torch.testing.assert_close(half.runner()([PAIRS.half()])[0], module(PAIRS.half()), rtol=4e-3, atol=0)
    assert_runs_alike(program, (PAIRS[:40],), rtol=1e-6, atol=1e-7)


def test_half_precision_stays():
    result = run_pass(DecomposeSpecialFunctions, Unary(torch.lgamma), (torch.ones(3, dtype=torch.float16),))
    assert not result.changed
    assert reasons(result) == ["there are no coefficients for float16"]


def test_other_functions_stay():
    result = run_pass(DecomposeSpecialFunctions, Unary(torch.erf), (torch.ones(3),))
    assert not result.changed and not result.left
