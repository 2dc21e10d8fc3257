from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import graphaudit
from graphaudit.capture.optional import with_zeros_for_none
from graphaudit.errors import GuardError
from graphaudit.policy import Policy


class Gru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gru = nn.GRU(4, 6)

    def forward(self, x: torch.Tensor, h: torch.Tensor | None = None) -> Any:
        return self.gru(x.unsqueeze(0), h)


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm = nn.LSTM(4, 6)

    def forward(self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor] | None = None) -> Any:
        y, state = self.lstm(x.unsqueeze(0), state)
        return y[0], state


class Learned(Gru):
    """Starts from a state of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.ones(1, 1, 6))

    def forward(self, x: torch.Tensor, h: torch.Tensor | None = None) -> Any:
        return self.gru(x.unsqueeze(0), self.first.expand(-1, len(x), -1).contiguous() if h is None else h)


def calls(seed: int, pair: bool = False) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(seed)
    x, h = torch.randn(2, 4, generator=generator), torch.randn(1, 2, 6, generator=generator)
    return x, None if seed % 3 == 0 else (h, h * 2) if pair else h


def policy(module: nn.Module, inputs: Callable[[int], tuple[Any, ...]]) -> Policy:
    return Policy("optional", module.eval(), inputs(0), inputs=inputs)


def test_zeros_stand_for_none_where_the_policy_does_the_same_with_them() -> None:
    made = with_zeros_for_none(policy(Gru(), calls))
    assert made.optional == ("args[1]",)
    assert torch.equal(made.example_args[1], torch.zeros(1, 2, 6))
    assert made.inputs is not None and torch.equal(made.inputs(3)[1], torch.zeros(1, 2, 6))
    assert torch.equal(made.inputs(1)[1], calls(1)[1])


@pytest.mark.parametrize("inputs", [calls, lambda seed: calls(0), None])
def test_left_alone(inputs: Callable[[int], tuple[Any, ...]] | None) -> None:
    """None starts from another state, is given always, or may be given otherwise by nobody knows."""
    module = Learned() if inputs is calls else Gru()
    given = Policy("optional", module.eval(), calls(0), inputs=inputs)
    assert with_zeros_for_none(given) is given


def test_a_bundle_takes_none_and_tensors(tmp_path: Path) -> None:
    module = Lstm().eval()
    shapes = ({0: "batch"}, ({1: "batch"}, {1: "batch"}))
    graphaudit.rewrite(
        module,
        calls(0),
        target="onnxruntime",
        inputs=lambda seed: calls(seed, pair=True),
        dynamic_shapes=shapes,
        output=tmp_path / "bundle",
        count=12,
    )
    deployed = graphaudit.load(tmp_path / "bundle")
    for rows in (1, 2, 5):
        x, h = torch.randn(rows, 4), torch.randn(1, rows, 6)
        for args in ((x,), (x, None), (x, (h, h * 2))):
            torch.testing.assert_close(deployed(*args), module(*args))
    with pytest.raises(GuardError):
        deployed(x, (None, h))
