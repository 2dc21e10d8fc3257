from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphaudit.capture.calls import example_call
from graphaudit.capture.control_flow import Refused
from graphaudit.capture.control_flow.rows import Row, _matmul
from graphaudit.capture.frontend import _FRONT_ENDS, _export, _program
from graphaudit.policy import Policy
from tests.capture.control_flow.passes_over_rows import EXACT, REFUSED, Layers, carried
from tests.capture.control_flow.test_constructs import line_of


class Calls(Layers):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def policy(function: Callable[..., Any], **kwargs: Any) -> Policy:
    torch.manual_seed(0)
    return Policy("rows", Calls(function).eval(), (torch.randn(3, 3),), dynamic_shapes=({0: "batch"},), **kwargs)


def predicated(built: Policy) -> Any:
    """The graph from the front end that makes masks, without a trial of those before it."""
    exported, session = _export(built, example_call(built), seed=0, front_end=_FRONT_ENDS[-1])
    return _program(built, exported, session).runner()


def assert_equal_up_to(built: Policy, most: int) -> Any:
    run = predicated(built)
    for size in range(1, most + 1):
        x = torch.randn(size, 3, generator=torch.Generator().manual_seed(size))
        result, *guards = run([x.clone()])
        torch.testing.assert_close(result, built.working(x.clone()))
        assert not any(guards)
    return run


@pytest.mark.parametrize("function", EXACT, ids=lambda f: f.__name__)
def test_passes_that_do_not_depend_on_one_another_run_once(function: Callable[..., Any]) -> None:
    assert_equal_up_to(policy(function), 6)


def test_passes_that_do_run_up_to_a_bound() -> None:
    run = assert_equal_up_to(policy(carried, loop_bounds=(4,)), 4)
    assert bool(run([torch.randn(5, 3)])[1])


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_cannot_be_done_at_once_is_refused_with_its_line(function: Callable[..., Any]) -> None:
    line, reason = line_of(function)
    with pytest.raises(Refused) as refused:
        predicated(policy(function))
    assert refused.value.place is not None and refused.value.place.line == line and reason in refused.value.reason


@pytest.mark.parametrize("dims", [(a, b) for a in (1, 2, 3) for b in (1, 2, 3)])
def test_products_of_rows(dims: tuple[int, int]) -> None:
    left, right = (torch.randn(5, 3, 3, 3).flatten(1)[:, : 3**n].unflatten(1, (3,) * n) for n in dims)
    for one, other in ((Row(left), Row(right)), (Row(left), right[0]), (left[0], Row(right))):
        made = _matmul(one, other)
        for number in range(5):
            given = [t.rows[number] if isinstance(t, Row) else t for t in (one, other)]
            torch.testing.assert_close(made.rows[number], torch.matmul(*given))
