"""rewrite_masked_rows: a row without entries gets zeros, or is uniform, and no other row moves by a bit."""

from __future__ import annotations

import math

import pytest
import torch

from graphaudit.passes.rewrite_masked_rows import Options, RewriteMaskedRows
from tests.helpers import make_program
from tests.passes.helpers import TARGET, Unary, assert_repaired, reasons, run_pass
from tests.passes.translated import assert_runs_alike

X = torch.tensor([[1.0, -2.0, 0.5, 3.0], [-1.0, -1.0, -2.0, -0.5], [0.1, -0.2, 5.0, 88.0]])
INF = float("inf")
FIRES = {
    "masked_fill": lambda x: torch.softmax(x.masked_fill(x < 0, -INF), -1),
    "where": lambda x: torch.softmax(torch.where(x > 0, x, -INF) / 0.5, -1),
    "added": lambda x: torch.softmax(x + torch.zeros_like(x).masked_fill(x < 0, -INF), -1),
    "log of the mask": lambda x: torch.softmax(x + torch.log((x > 0).float()), -1),
    "another axis": lambda x: torch.softmax(x.masked_fill(x < 0, -INF).T, 0),
}


@pytest.mark.parametrize("spelling", FIRES)
def test_a_row_without_entries_is_zero(spelling):
    module = Unary(FIRES[spelling])
    result = run_pass(RewriteMaskedRows, module, (X,), ({0: "batch"},))
    assert len(result.rewritten) == 1
    assert assert_repaired(module, result.artifact, X, value=0.0) == 4
    for x in (X[:1], X[1:2]):
        assert_repaired(module, result.artifact, x, value=0.0)


def test_in_onnxruntime():
    program = run_pass(RewriteMaskedRows, Unary(FIRES["masked_fill"]), (X,), ({0: "batch"},)).artifact
    assert_runs_alike(program, (X,), (X[1:2],), rtol=1e-6, atol=1e-7)


def test_logarithms():
    module = Unary(lambda x: torch.log_softmax(x.masked_fill(x < 0, -INF), -1))
    program = run_pass(RewriteMaskedRows, module, (X,)).artifact
    (got,), eager = program.runner()([X]), module(X)
    assert torch.equal(got[[0, 2]], eager[[0, 2]]) and (got[1] == -INF).all()


def test_uniform_by_option():
    for log in (False, True):
        call = torch.log_softmax if log else torch.softmax
        _, program = make_program(Unary(lambda x, call=call: call(x.masked_fill(x < 0, -INF), -1)), (X,))
        result = RewriteMaskedRows(Options(rows="uniform")).run(program.copy(), TARGET)
        wanted = torch.full((4,), -math.log(4) if log else 0.25)
        torch.testing.assert_close(result.artifact.runner()([X])[0][1], wanted)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: torch.softmax(x.masked_fill(x < 0, -1e9), -1), []),
        (lambda x: torch.softmax(x.masked_fill(torch.eye(3, 4).bool(), -INF), -1), []),  # no row of it is masked
        (
            lambda x: torch.nan_to_num(FIRES["masked_fill"](x)),
            ["the policy asks whether the result is finite, and answers that itself"],
        ),
    ],
)
def test_what_stays(function, reason):
    result = run_pass(RewriteMaskedRows, Unary(function), (X,))
    assert not result.changed and reasons(result) == reason
