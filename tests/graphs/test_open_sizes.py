"""Functions of torch that would fix the batch while they are traced."""

from __future__ import annotations

import pytest
import torch

from graphaudit.graphs.open_sizes import _cdist, _kron, _take_along_dim, open_sizes
from tests.helpers import make_program
from tests.passes.helpers import Unary

CALLS = {
    "cdist": lambda x: torch.cdist(x, torch.ones(5, 4)),
    "cdist with itself": lambda x: torch.cdist(x, x),
    "take_along_dim": lambda x: torch.take_along_dim(x, x.argsort(-1, descending=True), -1),
    "take_along_dim, broadcast": lambda x: torch.take_along_dim(x, torch.tensor([[1], [0]]).mT, 1),
    "kron": lambda x: torch.kron(x, torch.tensor([[1.0, 2.0]])),
}


@pytest.mark.parametrize("call", CALLS)
def test_the_batch_may_vary(call):
    module = Unary(CALLS[call])
    with open_sizes():
        _, program = make_program(module, (torch.randn(3, 4),), ({0: "batch"},))
    for batch in (1, 2, 30):
        x = torch.randn(batch, 4)
        torch.testing.assert_close(program.runner()([x])[0], module(x), rtol=1e-5, atol=1e-4)


def test_they_compute_what_torch_does():
    x, y = torch.randn(2, 3, 4), torch.randn(5, 4)
    for p in (0.0, 1.0, 2.0, 3.5, float("inf")):
        torch.testing.assert_close(_cdist(x, y, p), torch.cdist(x, y, p), rtol=1e-5, atol=1e-5)
    index = torch.tensor([[[0, 3]], [[1, 1]]])
    assert torch.equal(_take_along_dim(x, index, 2), torch.take_along_dim(x, index, 2))
    assert torch.equal(_take_along_dim(x, index, -1), torch.take_along_dim(x, index, -1))
    assert torch.equal(_take_along_dim(x, index), torch.take_along_dim(x, index))
    assert torch.equal(_kron(x, y), torch.kron(x, y)) and torch.equal(_kron(y, x[0, 0]), torch.kron(y, x[0, 0]))
