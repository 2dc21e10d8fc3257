from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphaudit.capture import capture
from graphaudit.policy import Policy
from tests.capture.control_flow.sizes import EXACT, REFUSED
from tests.capture.control_flow.test_constructs import Calls, line_of


def policy(function: Callable[..., Any]) -> Policy:
    return Policy("sizes", Calls(function).eval(), (torch.randn(3, 3),), dynamic_shapes=({0: "batch"},))


@pytest.mark.parametrize("function", EXACT, ids=lambda f: f.__name__)
def test_a_size_decides_at_every_size(function: Callable[..., Any]) -> None:
    built = policy(function)
    captured = capture(built, look_for_frozen=False)
    assert captured.program is not None, captured.blockers[-1]
    run = captured.program.runner()
    for size in range(1, 9):
        x = torch.randn(size, 3, generator=torch.Generator().manual_seed(size))
        for sign in (x.abs(), -x.abs()):
            torch.testing.assert_close(run([sign])[0], built.working(sign))


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_no_mask_can_be_is_refused_with_its_line(function: Callable[..., Any]) -> None:
    captured = capture(policy(function), look_for_frozen=False)
    line, reason = line_of(function)
    assert captured.program is None
    blocker = captured.blockers[-1]
    assert blocker.place is not None and blocker.place.line == line and reason in blocker.reason
