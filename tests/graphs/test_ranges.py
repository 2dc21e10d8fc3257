"""Which numbers a value can take, on real graphs; checked against what the graphs compute."""

from __future__ import annotations

import math

import pytest
import torch

from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.intervals import Interval
from graphaudit.graphs.ranges import Ranges
from tests.helpers import make_program
from tests.passes.helpers import Unary

INF = math.inf
KNOWN = [
    (lambda x: 1 - torch.tanh(x) ** 2, (0.0, 1.0)),
    (lambda x: 1 - torch.tanh(x) ** 2 + 1e-6, (1e-6, 1.000001)),
    (lambda x: torch.exp(x.clamp(-20, 2)), (math.exp(-20), math.exp(2))),
    (lambda x: torch.sqrt((x * x).sum(-1) + 1e-5), (math.sqrt(1e-5), INF)),
    (lambda x: (x - x.amax(1, keepdim=True)).exp(), (0.0, 1.0)),
    (lambda x: torch.where(x > 0, x.sigmoid(), 2.0), (0.0, 2.0)),
    (lambda x: x.relu().max(-1).values, (0.0, INF)),
    (lambda x: torch.cat([x.tanh(), x.sigmoid()]).mean(0), (-1.0, 1.0)),
    (lambda x: (x.abs() + 1).log(), (0.0, INF)),
    (lambda x: (x > 0).float().sum(1), (0.0, 3.0)),
    (lambda x: x.sigmoid().sum(0), (0.0, INF)),
    (lambda x: 2 - x.sigmoid() * 3, (-1.0, 2.0)),
    (lambda x: 1 / (1 + x**2), (0.0, 1.0)),
    (lambda x: torch.maximum(x, torch.tensor(0.5)), (0.5, INF)),
    (lambda x: torch.softmax(x, -1).masked_fill(x > 1, -4.0), (-4.0, 1.0)),
    (lambda x: torch.broadcast_tensors(x, x.tanh())[1], (-1.0, 1.0)),
    (lambda x: torch.ones_like(x) * torch.tensor([0.5, 2.0, 1.0]), (0.5, 2.0)),
    (lambda x: (x - torch.maximum(x, x.flip(-1) + 1)).exp(), (0.0, 1.0)),
    (lambda x: torch.einsum("bi,bj->bij", x.sigmoid(), -x.exp()), (-INF, 0.0)),
    (lambda x: torch.einsum("bi,bj->bij", x.sigmoid(), x.tanh()), (-1.0, 1.0)),
    (lambda x: torch.einsum("bi,bi->b", x.sigmoid(), x.sigmoid()), (0.0, INF)),
    (lambda x: torch.einsum("bi,bi->b", x.sigmoid(), x.tanh()), (-INF, INF)),
    (lambda x: x + 1, (-INF, INF)),
    (lambda x: x / x.tanh(), (-INF, INF)),
]


@pytest.mark.parametrize(("function", "expected"), KNOWN)
def test_bounds_are_known_and_kept(function, expected):
    _, program = make_program(Unary(function), (torch.zeros(2, 3),), ({0: "batch"},))
    view = view_program(program)
    found = Ranges(view).of(view.outputs[0])
    assert found == pytest.approx(Interval(*expected), rel=1e-6)
    x = torch.tensor([[0.0, -0.5, 0.5], [1e4, -1e4, 30.0], [-3.0, 2.0, 1e-30], [88.0, -88.0, 1.0]])
    result = program.runner()([x])[0]
    result = result[result.isfinite()]
    slack = 1e-5 * (1 + min(abs(found.low), abs(found.high), 10))
    assert ((result >= found.low - slack) & (result <= found.high + slack)).all()
