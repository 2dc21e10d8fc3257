"""What is computed from weights alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.passes.fold_constants import FoldConstants
from tests.helpers import make_program
from tests.passes.helpers import TARGET

X = torch.linspace(-2, 2, 8).reshape(2, 4)


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).transpose(-1, -2)


class Parametrised(nn.Module):
    """Three parametrisations, one of which has no ONNX operator for what it computes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        made = nn.utils.parametrizations
        self.normed = made.weight_norm(nn.Linear(4, 4))
        self.orthogonal = made.orthogonal(nn.Linear(4, 4))
        self.symmetric = nn.Linear(4, 4)
        nn.utils.parametrize.register_parametrization(self.symmetric, "weight", Symmetric())

    def forward(self, x):
        return self.symmetric(torch.relu(self.orthogonal(torch.relu(self.normed(x)))))


class Growing(nn.Module):
    """An outer product takes more room than its factors; an expand is only a view."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.linspace(0, 1, 4))

    def forward(self, x):
        return x @ torch.outer(self.w, self.w) + self.w.expand(2, 4)


class Written(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.linspace(0, 1, 4))

    def forward(self, x):
        self.mean.mul_(0.5)
        return x * (self.mean + 1).exp()


class Drawn(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.linspace(0, 1, 4))

    def forward(self, x):
        return x + self.w * torch.rand_like(self.w)


def operators(program) -> list[str]:
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]


def test_weights_are_computed_once() -> None:
    module = Parametrised().eval()
    _, program = make_program(module, (X,))
    assert "aten.matrix_exp.default" in operators(program)
    result = FoldConstants().run(program, TARGET)
    assert len(result.rewritten) == 3
    assert operators(program) == ["aten.linear.default", "aten.relu.default"] * 2 + ["aten.linear.default"]
    with torch.no_grad():
        assert torch.equal(program.runner()([X])[0], module(X))
    assert not FoldConstants().run(program, TARGET).changed


@pytest.mark.parametrize("module", [Growing, Written, Drawn, lambda: nn.Linear(4, 2)])
def test_left_alone(module) -> None:
    _, program = make_program(module().eval(), (X,))
    before = operators(program)
    assert not FoldConstants().run(program, TARGET).changed
    assert operators(program) == before
