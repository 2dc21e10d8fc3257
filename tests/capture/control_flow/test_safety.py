"""Nothing of the side that is not taken leaks: neither values nor gradients; and what the policy raises is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from graphaudit.capture import capture
from graphaudit.capture.control_flow import Bounds, Regions, predicated
from graphaudit.equivalence.inputs import Sample
from graphaudit.equivalence.reference import Reference
from graphaudit.equivalence.verdict import Claim
from graphaudit.policy import Policy


def logarithm(x: torch.Tensor) -> torch.Tensor:
    return torch.log(x[0]) if x[0] > 0 else x[1]


def root(x: torch.Tensor) -> torch.Tensor:
    return x.sum().sqrt() if x.sum() > 0 else x[1]


def quotient(x: torch.Tensor) -> torch.Tensor:
    return x[1] / x[0] if x[0] != 0 else x[1] * 2


def power(x: torch.Tensor) -> torch.Tensor:
    return x[0] ** 0.5 if x[0] > 0 else x[1]


def exponential(x: torch.Tensor) -> torch.Tensor:
    return (x[0] * 100).exp() if x[0] < 0.5 else x[1]


def arc(x: torch.Tensor) -> torch.Tensor:
    return torch.acos(x[0]) if x[0].abs() < 1 else x[1]


class Calls(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


AT_THE_EDGE = [torch.tensor(v) for v in ((0.0, 0.0), (1.0, 0.3), (-1.0, 1.0), (2.0, -0.5), (0.25, 0.5))]


@pytest.mark.parametrize("function", [logarithm, root, quotient, power, exponential, arc], ids=lambda f: f.__name__)
def test_gradients_through_masks_are_those_of_eager(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    captured = capture(Policy("edge", Calls(function), (AT_THE_EDGE[3],)), look_for_frozen=False)
    assert captured.program is not None
    graph = captured.program.exported.module()
    for point in AT_THE_EDGE:
        one, other = point.clone().requires_grad_(), point.clone().requires_grad_()
        (wanted,) = torch.autograd.grad(function(one), one)
        result = graph(other)
        value = result[0] if isinstance(result, list | tuple) else result
        (got,) = torch.autograd.grad(value, other)
        assert torch.isfinite(got).all() and torch.allclose(got, wanted, rtol=1e-5), (point, got, wanted)


class Guarded(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert torch.isfinite(x).all(), "bad sensor"
        if x.sum() > 4:
            raise ValueError(f"too large: {x.sum().item()}")
        return self.pick(x)

    def pick(self, x: torch.Tensor) -> torch.Tensor:
        return x * {0: 1.0, 1: 2.0}[int(x.argmax())]


def guarded() -> Policy:
    return Policy("guarded", Guarded().eval(), (torch.tensor([1.0, 0.0, -1.0]),))


RAISING = {
    "AssertionError": torch.tensor([float("nan"), 0.0, 0.0]),
    "ValueError": torch.tensor([9.0, 0.0, 0.0]),
    "KeyError": torch.tensor([0.0, 0.0, 1.0]),
}


def test_what_a_tensor_raises_is_a_guard_that_is_true_there_and_nowhere_else() -> None:
    policy = guarded()
    captured = capture(policy, look_for_frozen=False)
    assert captured.program is not None
    guards = captured.program.interface.guards
    assert [g.raises for g in guards] == list(RAISING)
    assert all(g.condition.startswith("test_safety.py:") and g.raises in g.condition for g in guards)
    run = captured.program.runner()
    assert not any(map(bool, run([policy.example_args[0]])[1:]))
    for error, x in RAISING.items():
        with pytest.raises((AssertionError, ValueError, KeyError)) as raised:
            policy.working(x)
        assert type(raised.value).__name__ == error
        assert bool(run([x])[1 + list(RAISING).index(error)])


def test_the_check_holds_a_guard_to_eager() -> None:
    policy = guarded()
    captured = capture(policy, look_for_frozen=False)
    assert captured.program is not None
    run = captured.program.runner()
    samples = [Sample(policy.example_args, {}, "example")]
    samples += [Sample((x,), {}, f"drawn({n}, x1)") for n, x in enumerate(RAISING.values())]
    reference = Reference(policy, samples, captured.program.interface.guards)
    assert reference.rejected == 3
    assert reference.check("capture", run).claim is Claim.EQUIVALENT

    def silent(inputs: list[torch.Tensor]) -> list[Any]:
        return [run(inputs)[0], *(torch.tensor(False) for _ in RAISING)]

    def timid(inputs: list[torch.Tensor]) -> list[Any]:
        return [run(inputs)[0], *(torch.tensor(True) for _ in RAISING)]

    assert "goes on at drawn" in reference.check("silent", silent).note
    assert "does not" in reference.check("timid", timid).note


def test_classes_and_globals_have_their_own_functions_again() -> None:
    class Gate:
        def __call__(self, v: torch.Tensor) -> torch.Tensor:
            return v if v[0] > 0 else -v

        @property
        def level(self) -> float:
            return 1.0 if PLACE else 2.0

    class Holds(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Gate()(x) * Gate().level

    before = dict(vars(Gate))
    module = Holds()
    with predicated(module, Bounds(), Regions()):
        module(torch.ones(2))
        assert vars(Gate)["__call__"] is not before["__call__"]
    assert all(vars(Gate)[name] is value for name, value in before.items())


PLACE = True
