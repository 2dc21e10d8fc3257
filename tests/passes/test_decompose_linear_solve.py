"""decompose_linear_solve on matrices that need pivots, batches, vectors and both triangles."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.decompose_linear_solve import DecomposeLinearSolve
from tests.passes.helpers import Function, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike


class Binary(Function):
    """A policy of a batch of matrices and one of right sides, so that dimensions can be dynamic."""

    def forward(self, a: torch.Tensor, b: torch.Tensor):
        return self.function(a, b)


def positive(a):
    return a @ a.mT + torch.eye(a.shape[-1])


CALLS = {
    "solve": torch.linalg.solve,
    "solve, from the right": lambda a, b: torch.linalg.solve(a, b.mT, left=False),
    "solve for a vector": lambda a, b: torch.linalg.solve(a, b[..., 0]),
    "solve, one matrix": lambda a, b: torch.linalg.solve(a[0], b),
    "inv": lambda a, b: torch.linalg.inv(a) @ b,
    "inverse": lambda a, b: a.inverse() @ b,
    "inv_ex": lambda a, b: torch.linalg.inv_ex(a).inverse @ b,
    "slogdet": lambda a, b: torch.stack(list(torch.linalg.slogdet(a))) + b.sum() * 0,
    "lower": lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
    "upper, from the right": lambda a, b: torch.linalg.solve_triangular(a, b.mT, upper=True, left=False),
    "unit triangle": lambda a, b: torch.linalg.solve_triangular(a, b, upper=True, unitriangular=True),
    "triangular_solve": lambda a, b: torch.triangular_solve(b, a, upper=True, transpose=True)[0],
    "cholesky": lambda a, b: torch.linalg.cholesky(positive(a)) @ b,
    "cholesky, upper": lambda a, b: torch.linalg.cholesky(positive(a), upper=True) @ b,
    "cholesky_ex": lambda a, b: torch.linalg.cholesky_ex(positive(a))[0] @ b,
    "cholesky_solve": lambda a, b: torch.cholesky_solve(b, a, upper=True),
    "cholesky_inverse": lambda a, b: torch.cholesky_inverse(a[0]) @ b,
}
SOLVERS = ("solve", "inv", "inverse", "triangular", "cholesky")


def matrices(batch, size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(batch, size, size, generator=generator)
    diagonal = torch.diagonal(a, dim1=-2, dim2=-1)
    diagonal += diagonal.sign() * 2
    return a, torch.randn(batch, size, 2, generator=generator)


@pytest.mark.parametrize("call", CALLS)
def test_equivalent(call):
    module = Binary(CALLS[call])
    program = run_pass(DecomposeLinearSolve, module, matrices(3, 3), ({0: "batch"}, {0: "batch"})).artifact
    assert not [op for op in ops(program) if any(name in op for name in SOLVERS)]
    calls = [matrices(batch, 3, seed=batch) for batch in (1, 6)]
    for call in calls:
        assert_equivalent_where_finite(module, program, *call)
    if call in ("solve", "lower", "cholesky", "cholesky_inverse"):  # the others are made of the same steps
        assert_runs_alike(program, *calls, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("call", ["solve", "inv"])
def test_matrices_that_need_a_pivot(call):
    a = torch.tensor(
        [
            [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],  # a permutation
            [[1e-20, 1.0, 0.0], [1.0, 1.0, 0.0], [2.0, 0.0, 1.0]],  # without a pivot, 1e20 drowns the rest
            [[1e18, 0.0, 1.0], [0.0, 1e-18, 0.0], [0.0, 0.0, 1.0]],
            [[-1.0, 2.0, 3.0], [1.0, 2.0, -3.0], [-1.0, 5.0, 3.5]],  # equal magnitudes
        ]
    )
    b = torch.arange(24.0).reshape(4, 3, 2)
    module = Binary(CALLS[call])
    assert_equivalent_where_finite(module, run_pass(DecomposeLinearSolve, module, (a, b)).artifact, a, b)


@pytest.mark.parametrize("size", [1, 2, 8])
def test_other_sizes(size):
    module, (a, b) = Binary(CALLS["solve"]), matrices(2, size)
    assert_equivalent_where_finite(module, run_pass(DecomposeLinearSolve, module, (a, b)).artifact, a, b)


def test_the_other_triangle_is_not_read():
    a = torch.tensor([[[2.0, float("nan")], [1.0, 4.0]]])
    b = torch.ones(1, 2, 1)
    program = run_pass(DecomposeLinearSolve, Binary(CALLS["lower"]), (a, b)).artifact
    assert torch.equal(program.runner()([a, b])[0].flatten(), torch.tensor([0.5, 0.125]))


def test_a_singular_matrix_gives_no_finite_answer():
    a, b = matrices(1, 2)
    program = run_pass(DecomposeLinearSolve, Binary(CALLS["solve"]), (a, b)).artifact
    assert not program.runner()([torch.ones(1, 2, 2), b])[0].isfinite().any()


@pytest.mark.parametrize(
    ("function", "size", "reason"),
    [
        (torch.linalg.solve, 9, "the matrix is 9 x 9; written out are those up to 8 x 8"),
        (lambda a, b: torch.linalg.solve(a + 0j, b + 0j).real, 2, "the matrix is complex"),
        (lambda a, b: torch.linalg.cholesky_ex(a)[1], 2, "linalg_cholesky_ex returns a second result, which is read"),
    ],
)
def test_what_stays(function, size, reason):
    result = run_pass(DecomposeLinearSolve, Binary(function), matrices(2, size))
    assert not result.changed
    assert reasons(result) == [reason]
