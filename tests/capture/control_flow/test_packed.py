from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from graphaudit.capture.calls import example_call
from graphaudit.capture.control_flow import Refused
from graphaudit.capture.frontend import _FRONT_ENDS, _export, _program
from graphaudit.policy import Policy
from tests.capture.control_flow.packed_sequences import FIXED, REFUSED, Layers, last_state
from tests.capture.control_flow.test_constructs import line_of


class Calls(Layers):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        return self.function(self, x, lengths)


def policy(function: Callable[..., Any], **kwargs: Any) -> Policy:
    torch.manual_seed(0)
    return Policy("packed", Calls(function).eval(), (torch.randn(3, 5, 4), torch.tensor([5, 3, 2])), **kwargs)


def predicated(built: Policy) -> Any:
    exported, session = _export(built, example_call(built), seed=0, front_end=_FRONT_ENDS[-1])
    return _program(built, exported, session).runner()


def calls(count: int = 8) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Lengths of all kinds, and NaN behind every row's end: torch never reads it."""
    found = [torch.tensor(lengths) for lengths in ([5, 5, 5], [1, 1, 1], [1, 5, 3], [2, 4, 3])]
    generator = torch.Generator().manual_seed(0)
    found += [torch.randint(1, 6, (3,), generator=generator) for _ in range(count - len(found))]
    made = []
    for lengths in found:
        x = torch.randn(3, 5, 4, generator=generator)
        x[torch.arange(5) >= lengths.unsqueeze(1)] = torch.nan
        made.append((x, lengths))
    return made


@pytest.mark.parametrize("function", FIXED, ids=lambda f: f.__name__)
def test_a_packed_sequence_is_followed_at_all_lengths(function: Callable[..., Any]) -> None:
    built = policy(function)
    run = predicated(built)
    for x, lengths in calls():
        wanted = pytree.tree_leaves(built.working(x.clone(), lengths.clone()))
        results = run([x, lengths])
        for result, value in zip(results, wanted, strict=False):
            torch.testing.assert_close(result, value, rtol=1e-5, atol=1e-6)
        assert not any(results[len(wanted) :])


def test_lengths_that_torch_refuses_are_a_guard() -> None:
    built = policy(last_state)
    run = predicated(built)
    for lengths in ([0, 3, 2], [6, 3, 2]):
        _, guard = run([torch.randn(3, 5, 4), torch.tensor(lengths)])
        assert bool(guard)
        with pytest.raises(RuntimeError):
            built.working(torch.randn(3, 5, 4), torch.tensor(lengths))


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_the_layout_of_a_packed_sequence_is_refused_with_its_line(function: Callable[..., Any]) -> None:
    line, reason = line_of(function)
    with pytest.raises(Refused) as refused:
        predicated(policy(function))
    assert refused.value.place is not None and refused.value.place.line == line and reason in refused.value.reason
