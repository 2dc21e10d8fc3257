"""A working copy shares nothing with the user's module, and runs what was compiled as it is written."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.policy.isolation import double_copy, private_copy


class Hooked(nn.Module):
    """A hook, a lambda, a default and a compiled method, each of which holds `self`."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3, 3)
        self.seen: dict[str, torch.Tensor] = {}
        self.body.register_forward_hook(self._save("body"))
        self.scale = nn.Parameter(torch.ones(()))
        self.scaled = lambda x: x * self.scale
        self.shifts = [lambda x, module=self: x + module.scale]
        self.twice = torch.compile(self._twice, backend="eager")

    def _save(self, name: str):
        def hook(_module, _inputs, output):
            self.seen[name] = output

        return hook

    def _twice(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x + self.scale

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.twice(self.shifts[0](self.scaled(self.body(obs)))) + self.seen["body"]


@pytest.mark.parametrize("copied", [lambda m: private_copy(m).module, double_copy])
def test_functions_that_hold_the_module_hold_the_copy(copied) -> None:
    module = Hooked()
    copy = copied(module)
    with torch.no_grad():
        copy.scale.fill_(3)
        obs = torch.ones(2, 3, dtype=copy.scale.dtype)
        body = nn.functional.linear(obs, copy.body.weight, copy.body.bias)
        torch.testing.assert_close(copy(obs), 2 * (body * 3 + 3) + 3 + body)
    assert module.seen == {} and module.scale.item() == 1


def test_functions_without_the_module_stay_the_same() -> None:
    offset = torch.ones(3)
    module = nn.Linear(3, 3)
    module.shift = lambda x: x + offset
    assert private_copy(module).module.shift is module.shift


def test_nothing_is_compiled() -> None:
    compiled: list[object] = []

    def backend(graph: torch.fx.GraphModule, _example: object):
        compiled.append(graph)
        return graph.forward

    working = private_copy(torch.compile(nn.Linear(3, 2), backend=backend))
    assert working(torch.ones(1, 3)).shape == (1, 2)
    assert not compiled
