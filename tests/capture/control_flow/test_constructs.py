from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphaudit.capture import capture
from graphaudit.policy import Policy
from tests.capture.control_flow.constructs import EXACT, Holder
from tests.capture.control_flow.refusals import REFUSED

PREDICATED = "torch.export, control flow predicated"
# Every sign pattern and order of three values, small and large: all paths of every function are among them.
VALUES = (-3.0, -0.4, 0.3, 2.6)
INPUTS = [torch.tensor(v) for v in itertools.product(VALUES, repeat=3)]


class Calls(Holder):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def policy(function: Callable[..., Any]) -> Policy:
    return Policy("construct", Calls(function).eval(), (INPUTS[0],))


def line_of(function: Callable[..., Any]) -> tuple[int, str]:
    lines, first = inspect.getsourcelines(function)
    number = next(i for i, line in enumerate(lines) if "# refused: " in line)
    return first + number, lines[number].partition("# refused: ")[2].strip()


def assert_equal_on_all_inputs(built: Policy) -> None:
    captured = capture(built)
    assert captured.program is not None, captured.blockers[-1]
    run = captured.program.runner()
    for x in INPUTS:
        wanted = built.interface.flatten_result(built.working(x))
        for got, want in zip(run([x]), wanted, strict=True):
            assert got.dtype == want.dtype and got.shape == want.shape
            assert torch.allclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True), (x, got, want)


@pytest.mark.parametrize("function", EXACT, ids=lambda f: f.__name__)
def test_a_construct_becomes_masks_that_equal_eager_on_every_path(function: Callable[..., Any]) -> None:
    assert_equal_on_all_inputs(policy(function))


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_masks_cannot_express_is_refused_at_its_line(function: Callable[..., Any]) -> None:
    captured = capture(policy(function))
    line, reason = line_of(function)
    assert captured.program is None
    refusal = captured.blockers[-1]
    assert reason in refusal.reason
    assert refusal.place is not None and refusal.place.line == line and refusal.place.file.endswith("refusals.py")
