"""decompose_search counts what torch finds."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.passes.decompose_search import DecomposeSearch
from tests.passes.helpers import Unary, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

INF, NAN = float("inf"), float("nan")
EDGES = torch.tensor([-1.0, 0.0, 0.0, 2.0, INF])
AWKWARD = torch.tensor([[-INF, -1.0, -1.0000001], [-0.0, 0.0, 1e-45], [2.0, 3e38, INF], [NAN, -3e38, 1.0]])


class Edged(nn.Module):
    """A policy that searches in a buffer."""

    def __init__(self, function, edges=EDGES):
        super().__init__()
        self.function = function
        self.register_buffer("edges", edges)

    def forward(self, x: torch.Tensor):
        return self.function(self.edges, x)


CALLS = {
    "searchsorted": lambda e, x: torch.searchsorted(e, x),
    "right": lambda e, x: torch.searchsorted(e, x, right=True),
    "side": lambda e, x: torch.searchsorted(e, x, side="right"),
    "int32": lambda e, x: torch.searchsorted(e, x, out_int32=True),
    "scalar": lambda e, x: torch.searchsorted(e, 0.0, right=True) + x.sum().long() * 0,
    "bucketize": lambda e, x: torch.bucketize(x, e),
    "bucketize, right": lambda e, x: torch.bucketize(x, e, right=True),
    "bucketize, int32": lambda e, x: torch.bucketize(x, e, out_int32=True, right=True),
    "one element": lambda e, x: torch.bucketize(x, e[:1]),
}


@pytest.mark.parametrize("call", CALLS)
def test_counts_are_those_of_torch(call):
    module = Edged(CALLS[call])
    program = run_pass(DecomposeSearch, module, (AWKWARD,)).artifact
    assert not {"searchsorted", "bucketize"} & set(ops(program))
    if call != "scalar":
        assert torch.equal(program.runner()([AWKWARD])[0], module(AWKWARD))
        assert_runs_alike(program, (AWKWARD,))


def test_rows_of_edges_with_a_sorter_and_a_varying_batch():
    class Rows(nn.Module):
        def forward(self, e, x):
            return torch.searchsorted(e, x, sorter=e.argsort(-1), right=True)

    torch.manual_seed(0)
    e, x = torch.randn(3, 5), torch.randn(3, 2)
    program = run_pass(DecomposeSearch, Rows(), (e, x), ({0: "batch"}, {0: "batch"})).artifact
    for batch in (1, 4):
        e, x = torch.randn(batch, 5), torch.randn(batch, 2)
        assert torch.equal(program.runner()([e, x])[0], Rows()(e, x))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("right", [False, True])
def test_edges_in_any_order_are_halved_as_torch_halves_them(size, right):
    class Given(nn.Module):
        def forward(self, e, x):
            one = torch.searchsorted(e[0], x[0, 0], right=right)
            return torch.searchsorted(e, x, right=right), torch.bucketize(x, e[0], right=right), one

    generator = torch.Generator().manual_seed(size)
    e, x = torch.randn(3, size, generator=generator).round(decimals=1), torch.randn(3, 6, generator=generator)
    x[0, :2], e[-1, -1] = e[0, 0], NAN
    program = run_pass(DecomposeSearch, Given(), (e, x)).artifact
    assert not {"searchsorted", "bucketize"} & set(ops(program))
    for got, wanted in zip(program.runner()([e, x]), Given()(e, x), strict=True):
        assert torch.equal(got, wanted)
    assert_runs_alike(program, (e, x))


def test_integers():
    edges, x = torch.tensor([1, 3, 3, 7]), torch.arange(-1, 9)
    program = run_pass(DecomposeSearch, Edged(CALLS["bucketize"], edges), (x,)).artifact
    assert torch.equal(program.runner()([x])[0], torch.bucketize(x, edges))


@pytest.mark.parametrize(
    ("edges", "reason"),
    [
        ([0.0, 2.0, 1.0], "the edges are not sorted"),
        ([NAN], "an edge is NaN"),
        ([0.0, NAN], "the edges are not sorted"),
    ],
)
def test_edges_that_are_not_in_order_stay(edges, reason):
    result = run_pass(DecomposeSearch, Edged(CALLS["bucketize"], torch.tensor(edges)), (AWKWARD,))
    assert not result.changed
    assert reasons(result) == [reason]


def test_a_comparison_written_by_hand_is_no_search():
    result = run_pass(DecomposeSearch, Unary(lambda x: (x[:, None] > x).sum(-1)), (torch.ones(3),))
    assert not result.changed and not result.left
