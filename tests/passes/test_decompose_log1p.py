"""decompose_log1p, and how many units in the last place it is off."""

from __future__ import annotations

import pytest
import torch

from graphaudit.export.translate import to_onnx
from graphaudit.passes.decompose_log1p import DecomposeLog1p
from graphaudit.runtimes.onnxruntime import runner
from tests.passes.helpers import TARGET, Unary, ops, reasons, run_pass

INF, NAN = float("inf"), float("nan")
SPELLINGS = {
    "log1p": (torch.log1p, 1),
    "log of a sum": (lambda x: torch.log(1 + x), 1),
    "log of a sum with a tensor": (lambda x: torch.log(torch.ones_like(x) + x), 1),
    "log of a difference": (lambda x: torch.log(1 - x), -1),
}


def _everywhere() -> torch.Tensor:
    """Numbers of every size above -1, close to it, to 0 and to 1 too."""
    sizes = torch.logspace(-44, 38.5, 20_001, dtype=torch.float64).float()
    close = torch.logspace(-7.2, -0.01, 5_001, dtype=torch.float64).float()
    return torch.cat([sizes, -sizes[sizes < 1], close - 1, 1 - close, 1 + close, torch.zeros(1)])[None]


def _ulps(got: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    exact = torch.log1p(x.double())
    spacing = torch.clamp(2.0 ** (torch.floor(torch.log2(exact.abs())) - 23), min=2.0**-149)
    return ((got.double() - exact).abs() / spacing)[exact.isfinite() & (exact != 0)]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_two_units_in_the_last_place_and_three_in_onnxruntime(spelling):
    function, sign = SPELLINGS[spelling]
    x = _everywhere()
    result = run_pass(DecomposeLog1p, Unary(function), (x * sign,), ({1: "n"},))
    assert len(result.rewritten) == 1 and "log1p" not in ops(result.artifact)
    (got,) = result.artifact.runner()([x * sign])
    assert _ulps(got, x).max() <= 2
    (run,) = runner(to_onnx(result.artifact, TARGET))([x * sign])
    assert _ulps(torch.as_tensor(run), x).max() <= 3


def test_what_the_exporter_writes_loses_all_digits():
    x = _everywhere()
    assert _ulps(torch.log(1 + x), x).max() > 1e6


def test_poles_and_nan():
    x = torch.tensor([[-1.0, -1.5, INF, -INF, NAN, 0.0, 3.4e38]])
    program = run_pass(DecomposeLog1p, Unary(torch.log1p), (x,)).artifact
    torch.testing.assert_close(program.runner()([x])[0], torch.log1p(x), rtol=1e-6, atol=0, equal_nan=True)


def test_float16_and_float64():
    for dtype in (torch.float16, torch.float64):
        x = torch.tensor([[1e-3, -0.5, 1e-5, 100.0]], dtype=dtype)
        program = run_pass(DecomposeLog1p, Unary(torch.log1p), (x,)).artifact
        torch.testing.assert_close(program.runner()([x])[0], torch.log1p(x), rtol=4 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: torch.log1p(x.long()), ["the input is int64"]),
        (lambda x: torch.log(torch.ones(2, 1, 4) + x), ["adding the 1 changes the shape"]),
        (lambda x: torch.log(2 + x), []),
        (lambda x: torch.log(x - 1), []),
        (lambda x: torch.log(torch.add(torch.ones_like(x), x, alpha=2)), []),
        (lambda x: torch.log(1 + torch.ones_like(x)) + x, []),
    ],
)
def test_what_stays(function, reason):
    result = run_pass(DecomposeLog1p, Unary(function), (torch.ones(2, 4),))
    assert not result.changed and reasons(result) == reason
