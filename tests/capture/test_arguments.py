from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import graphaudit
from graphaudit.capture import capture
from graphaudit.capture.arguments import with_tensors_for_numbers
from graphaudit.errors import GuardError
from graphaudit.policy import Policy


class Refine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, steps: int) -> torch.Tensor:
        for _ in range(steps):
            x = x + 0.1 * torch.tanh(self.linear(x))
        return x


class Halve(nn.Module):
    def forward(self, x: torch.Tensor, steps: int) -> torch.Tensor:
        done = 0
        while done < steps // 2 + 1:
            x = x + done
            done += 1
        while steps > 1:
            x = x * 0.5
            steps -= 1
        return x


class Settle(nn.Module):
    def forward(self, x: torch.Tensor, steps: int) -> torch.Tensor:
        for _ in range(steps):
            x = x + 1
        while x.norm() > 1:
            x = x * 0.5
        return x


class Choose(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x: torch.Tensor, temperature: float, greedy: bool, mode: str = "soft") -> torch.Tensor:
        logits = self.linear(x) / temperature
        if greedy and mode == "soft":
            return torch.nn.functional.one_hot(logits.argmax(-1), 4).float()
        return torch.softmax(logits, -1)


class Pick(nn.Module):
    def forward(self, x: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
        return x[:, options["index"]] * (2 if options["index"] > 0 else 1)


def x_of(seed: int) -> torch.Tensor:
    return torch.randn(2, 3, generator=torch.Generator().manual_seed(seed))


CALLS: dict[type[nn.Module], Callable[[int], tuple[Any, ...]]] = {
    Refine: lambda seed: (x_of(seed), 2 + seed % 4),
    Halve: lambda seed: (x_of(seed), seed % 5),
    Choose: lambda seed: (x_of(seed), 0.1 + seed / 7, seed % 2 == 0, "soft"),
    Pick: lambda seed: (x_of(seed), {"index": seed % 3}),
}


@pytest.mark.parametrize("kind", CALLS, ids=lambda kind: kind.__name__)
def test_numbers_that_vary_are_inputs_of_the_graph(kind: type[nn.Module]) -> None:
    calls, module = CALLS[kind], kind().eval()
    policy = with_tensors_for_numbers(Policy("numbers", module, calls(1), inputs=calls))
    captured = capture(policy, look_for_frozen=False)
    assert captured.program is not None, captured.blockers[-1]
    run = captured.program.runner()
    for seed in range(6):
        assert policy.inputs is not None
        result = run(policy.interface.flatten(policy.inputs(seed)))[0]
        torch.testing.assert_close(result, module(*calls(seed)))


def test_the_largest_number_seen_bounds_no_other_loop() -> None:
    def calls(seed: int) -> tuple[Any, ...]:
        return x_of(seed), 2 + seed % 4

    policy = with_tensors_for_numbers(Policy("numbers", Settle().eval(), calls(1), inputs=calls))
    blocker = capture(policy, look_for_frozen=False).blockers[-1]
    lines, first = inspect.getsourcelines(Settle.forward)
    assert blocker.kind == "loop-bound-unknown"
    assert blocker.place is not None and "x.norm()" in lines[blocker.place.line - first]


def test_what_does_not_vary_stays_a_constant() -> None:
    policy = Policy("numbers", Refine(), (x_of(0), 3), inputs=lambda seed: (x_of(seed), 3))
    assert with_tensors_for_numbers(policy) is policy


def test_a_bundle_takes_the_number_and_raises_beyond_the_largest_seen(tmp_path: Path) -> None:
    module = Refine().eval()
    graphaudit.rewrite(
        module, CALLS[Refine](0), target="ascend-310p", inputs=CALLS[Refine], output=tmp_path / "bundle", count=24
    )
    deployed = graphaudit.load(tmp_path / "bundle")
    for steps in (0, 1, 5):
        torch.testing.assert_close(deployed(x_of(7), steps), module(x_of(7), steps))
    with pytest.raises(GuardError, match="runs at most 5 times"):
        deployed(x_of(7), 6)
