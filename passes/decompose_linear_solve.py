"""Solvers and factorisations of small matrices are written out, row by row.

    linalg_solve(A, B)                     →  Gauss's elimination with partial pivoting, then substitution
    linalg_inv(A), inverse(A)              →  the same with B = identity
    linalg_solve_triangular(A, B)          →  forward or backward substitution
    triangular_solve(B, A)                 →  the same
    linalg_cholesky(A), cholesky(A)        →  Cholesky's factorisation, column by column
    cholesky_solve(B, L)                   →  two substitutions
    cholesky_inverse(L)                    →  the same with B = identity
    linalg_slogdet(A)                      →  the same elimination; signs and logarithms of the pivots

- A is real, of n x n with known n <= 8; dimensions before that are batches. In every step the pivot is the entry of
  largest magnitude, as in LAPACK's getrf, and the first of equal ones.
- Left alone: larger matrices, sizes that vary, complex numbers, calls whose second result is read (the error code of
  linalg_cholesky_ex, the copy of A that triangular_solve returns).

The results differ by rounding. Where torch raises, because a matrix is singular or not positive definite, the result
is infinite or NaN.

Source: G. H. Golub and C. F. Van Loan, Matrix Computations, 4th ed., 2013, algorithms 3.1.1, 3.1.2, 3.4.1 and 4.2.1.
"""

from __future__ import annotations

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument, results_read, shape
from graphaudit.rulebook.target import Target

_LARGEST = 8  # the nodes grow with n²; a larger system is no part of a policy that is fast


class DecomposeLinearSolve(OperatorPass):
    """Solvers and factorisations of small matrices → element-wise steps on their rows."""

    name = "decompose_linear_solve"
    fixes = ("linalg", "unsupported-op")
    target_ops = frozenset(
        f"aten.{name}"
        for name in (
            *("linalg_solve", "linalg_inv", "inverse", "linalg_solve_triangular", "triangular_solve"),
            *("_linalg_slogdet", "linalg_inv_ex"),
            *("linalg_cholesky", "linalg_cholesky_ex", "cholesky", "cholesky_solve", "cholesky_inverse"),
        )
    )
    claims = Claim.EQUIVALENT

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """The written-out form, where the matrix is small and nothing else of the call is read."""
        operator = node.target._schema.name.removeprefix("aten::")  # type: ignore[union-attr]
        function, matrix = _FUNCTIONS[operator]
        source = argument(node, matrix)
        size = shape(source)[-1]
        if source.meta["val"].is_complex():
            return "the matrix is complex"
        if not isinstance(size, int):
            return "the size of the matrix varies"
        if size > _LARGEST:
            return f"the matrix is {size} x {size}; written out are those up to {_LARGEST} x {_LARGEST}"
        results = {0, 1} if operator == "_linalg_slogdet" else {0}
        if isinstance(node.meta["val"], tuple | list) and results_read(node) - results:
            return f"{operator} returns a second result, which is read"
        return function


def _solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    if B.dim() == 1 or (A.dim() - 1 == B.dim() and A.shape[:-1] == B.shape):
        return _solve(A, B.unsqueeze(-1), left=left).squeeze(-1)
    if not left:
        return _solve(A.mT, B.mT).mT
    return _eliminate(A, B)


def _inverse(A: Tensor) -> Tensor:
    return _eliminate(A, _identity(A))


def _inverse_ex(A: Tensor, *, check_errors: bool = False) -> tuple[Tensor, None]:  # noqa: ARG001
    return _inverse(A), None


def _slogdet(A: Tensor) -> tuple[Tensor, Tensor, None, None]:
    rows, swapped = _echelon(A)
    pivots = [row[..., 0, k] for k, row in enumerate(rows)]
    sign = torch.stack([p.sign() for p in pivots] + [1.0 - 2.0 * s.to(A.dtype) for s in swapped], -1).prod(-1)
    return sign, torch.stack(pivots, -1).abs().log().sum(-1), None, None


def _solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    if not left:
        return _substitute(A.mT, B.mT, upper=not upper, unit=unitriangular).mT
    return _substitute(A, B, upper=upper, unit=unitriangular)


def _triangular_solve(
    B: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, None]:
    matrix, is_upper = (A.mT, not upper) if transpose else (A, upper)
    return _substitute(matrix, B, upper=is_upper, unit=unitriangular), None


def _cholesky(A: Tensor, upper: bool = False) -> Tensor:
    """Column j of L is (A[j:, j] - L[j:, :j] @ L[j, :j]) over the root of its first entry."""
    source, size = (A.mT if upper else A), A.shape[-1]
    columns: list[Tensor] = []
    for j in range(size):
        column = source[..., j:, j]
        for done in columns:
            column = column - done[..., j:] * done[..., j : j + 1]
        scaled = column / column[..., :1].sqrt()
        columns.append(torch.cat([torch.zeros_like(source[..., :j, j]), scaled], -1))
    lower = torch.stack(columns, -1)
    return lower.mT if upper else lower


def _cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> tuple[Tensor, None]:  # noqa: ARG001
    return _cholesky(A, upper), None


def _cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    lower = L.mT if upper else L
    return _substitute(lower.mT, _substitute(lower, B, upper=False), upper=True)


def _cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    return _cholesky_solve(_identity(L), L, upper)


_FUNCTIONS: dict[str, tuple[Function, str]] = {  # and which argument is the matrix
    "linalg_solve": (_solve, "A"),
    "linalg_inv": (_inverse, "A"),
    "linalg_inv_ex": (_inverse_ex, "A"),
    "_linalg_slogdet": (_slogdet, "A"),
    "inverse": (_inverse, "self"),
    "linalg_solve_triangular": (_solve_triangular, "self"),
    "triangular_solve": (_triangular_solve, "A"),
    "linalg_cholesky": (_cholesky, "self"),
    "linalg_cholesky_ex": (_cholesky_ex, "self"),
    "cholesky": (_cholesky, "self"),
    "cholesky_solve": (_cholesky_solve, "input2"),
    "cholesky_inverse": (_cholesky_inverse, "self"),
}


def _eliminate(A: Tensor, B: Tensor) -> Tensor:
    """X in A @ X = B."""
    size = A.shape[-1]
    batch = torch.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    rows, _ = _echelon(torch.cat([A.expand(*batch, -1, -1), B.expand(*batch, -1, -1)], -1))
    work = torch.cat(rows, -2)
    return _substitute(work[..., :size], work[..., size:], upper=True)


def _echelon(below: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """The rows of the upper triangle that elimination leaves, and which steps swapped two rows.

    `below` holds the rows that are not done yet.
    """
    rows: list[Tensor] = []
    swapped: list[Tensor] = []
    size = below.shape[-2]
    for k in range(size):
        if k < size - 1:
            best = below[..., k].abs().argmax(-1, keepdim=True)
            swapped.append(best[..., 0] != 0)
            chosen = (torch.arange(size - k) == best).unsqueeze(-1)
            pivot = torch.where(chosen, below, 0.0).sum(-2, keepdim=True)
            below = torch.where(chosen, below[..., :1, :], below)[..., 1:, :]
            below = below - below[..., k : k + 1] / pivot[..., k : k + 1] * pivot
        else:
            pivot = below
        rows.append(pivot)
    return rows, swapped


def _substitute(A: Tensor, B: Tensor, *, upper: bool, unit: bool = False) -> Tensor:
    """X in A @ X = B for a triangular A, whose other half is not read."""
    size = A.shape[-1]
    order = list(reversed(range(size))) if upper else list(range(size))
    solved: dict[int, Tensor] = {}
    for i in order:
        row = B[..., i : i + 1, :]
        for j, value in solved.items():
            row = row - A[..., i : i + 1, j : j + 1] * value
        solved[i] = row if unit else row / A[..., i : i + 1, i : i + 1]
    return torch.cat(torch.broadcast_tensors(*(solved[i] for i in range(size))), -2)


def _identity(A: Tensor) -> Tensor:
    return torch.eye(A.shape[-1], dtype=A.dtype).expand(A.shape)
