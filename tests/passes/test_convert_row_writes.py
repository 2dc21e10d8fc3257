"""convert_row_writes: experts that rows are routed to, by masks and by positions, and selections written back."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.passes.convert_row_writes import ConvertRowWrites
from tests.passes.helpers import Function, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

INF, NAN = float("inf"), float("nan")
X = torch.tensor([[0.0, -1.0, 2.0], [1.0, 3.0, -3.0], [0.5, -0.5, 1.0], [5.0, 6.0, 7.0]])
ROUTES = torch.tensor([[0, 1], [1, 2], [1, 1], [2, 0]])


class Experts(Function):
    """A policy of rows and of the two experts that each is routed to."""

    def __init__(self, function):
        super().__init__(function)
        torch.manual_seed(0)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(3, 5), nn.GELU(), nn.Linear(5, 3)) for _ in range(2))

    def forward(self, x: torch.Tensor, routes: torch.Tensor):
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            out = self.function(out, x, routes, number, expert)
        return out


def _added_by_mask(out, x, routes, number, expert):
    mask = routes[:, 0] == number
    out[mask] += expert(x[mask])
    return out


def _added_by_positions(out, x, routes, number, expert):
    rows, slots = torch.where(routes == number)
    return out.index_add(0, rows, expert(x[rows]) * (routes.to(x.dtype) + 1)[rows, slots, None])


def _added_by_columns(out, x, routes, number, expert):
    slots, rows = torch.where((routes == number).T)
    values = expert(x[None, rows].reshape(-1, 3)) * (slots + 1).to(x.dtype).unsqueeze(-1)
    return out.index_put((rows,), values, accumulate=True)


def _last_stays(out, x, routes, number, expert):
    rows, slots = torch.where(routes == number)
    out[rows] += expert(x[rows]) * (routes.to(x.dtype) + 2)[rows, slots].unsqueeze(-1)
    return out


def _copied(out, x, routes, number, expert):
    rows = (routes[:, 1] == number).nonzero().squeeze(-1)
    return out.index_copy(0, rows, expert(x.index_select(0, rows)))


def _elements(out, x, routes, number, expert):
    out = out + expert(x)
    out[out > 0.1] *= 0.5
    return out


def _of_numbers(out, x, routes, number, expert):
    rows = torch.where(routes[:, 0] == number)[0]
    return out.index_put((rows,), x[rows] * 2 + expert[0].bias[:3]).index_put((rows,), x.new_full((3,), 4.0))


FUNCTIONS = [_added_by_mask, _added_by_positions, _added_by_columns, _last_stays, _copied, _elements, _of_numbers]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_rows_and_routes(function):
    module = Experts(function)
    program = run_pass(ConvertRowWrites, module, (X, ROUTES)).artifact
    assert {"index", "index_put", "index_add", "index_copy", "nonzero"}.isdisjoint(ops(program))
    awkward = X.clone()
    awkward[1] = torch.tensor([NAN, INF, -INF])
    calls = [(X, ROUTES), (X * 3, ROUTES.flip(0)), (X, torch.ones_like(ROUTES)), (awkward, ROUTES)]
    for given in calls:
        assert_equivalent_where_finite(module, program, *given)
    assert_runs_alike(program, *calls[:3], without="NonZero", rtol=1e-5)


def test_rows_of_a_varying_batch():
    module = Experts(_added_by_mask)
    program = run_pass(ConvertRowWrites, module, (X, ROUTES), ({0: "agents"}, {0: "agents"})).artifact
    assert_equivalent_where_finite(module, program, X[:3], ROUTES[:3])


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (
            lambda out, x, routes, n, f: out.index_add(0, (i := torch.where(routes[:, 0] == n)[0]), x[i].softmax(0)),
            "aten.softmax.int reads the selected rows, and does not work row by row",
        ),
        (
            lambda out, x, routes, n, f: out.index_add(0, (i := torch.where(routes[:, 0] == n)[0]), x[3 - i]),
            "other rows than the selected ones are read",
        ),
        (
            lambda out, x, routes, n, f: out.index_add(0, (i := torch.where(routes[:2, 0] == n)[0]), f(x[i])),
            "the mask does not cover what is read",
        ),
        (
            lambda out, x, routes, n, f: out.index_add(
                0, (i := torch.where(routes[:, 0] == n)[0]), x[i].view(-1, 1).view(-1, 3).cumsum(0)
            ),
            "does not work row by row",
        ),
        (
            lambda out, x, routes, n, f: out.index_add(0, (i := torch.where(routes[:, 0] == n)[0]), x[i] / i.shape[0]),
            "the number of selected rows is used",
        ),
    ],
)
def test_what_stays(function, reason):
    result = run_pass(ConvertRowWrites, Experts(function), (X, ROUTES))
    assert not result.changed
    assert any(reason in given for given in reasons(result)), reasons(result)
