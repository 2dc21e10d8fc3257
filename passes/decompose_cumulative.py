"""Cumulative products, maxima, minima and log-sum-exps become a scan that doubles its reach in every step.

    cumprod(x, d)       →  y = x; for s in 1, 2, 4, … below n: y = [y[:s], y[s:] * y[:-s]]        n = x.shape[d]
    cummax(x, d)        →  the same with the larger of two; the indices follow the values
    cummin(x, d)        →  the same with the smaller
    logcumsumexp(x, d)  →  the same with max(a, b) + log1p(exp(-|a - b|))

- n is known; it takes ceil(log2(n)) steps.
- Of equal values the index of the last counts, and NaN stays once it has come up, as in torch.
- Left alone: a dimension of unknown or no size.

Maxima and minima are exact. Log-sum-exps differ by rounding (torch's own decomposition, which the exporter would use,
sums exponentials of x - max(x) and gives -inf where they vanish). Products differ by rounding; where some of the
factors together leave the range of the dtype and others bring them back, torch may come to another result, because it
multiplies from left to right in float64.

Source: W. D. Hillis and G. L. Steele, Data parallel algorithms, Communications of the ACM 29(12), 1986.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument, results_read, shape
from graphaudit.rulebook.target import Target


class DecomposeCumulative(OperatorPass):
    """cumprod, cummax, cummin and logcumsumexp → a scan of element-wise steps."""

    name = "decompose_cumulative"
    fixes = ("cumprod", "cummax", "logcumsumexp", "unsupported-op")
    target_ops = frozenset({"aten.cumprod", "aten.cummax", "aten.cummin", "aten.logcumsumexp"})
    claims = Claim.EQUIVALENT

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """The scan, where its number of steps is known."""
        source = node.args[0]
        assert isinstance(source, fx.Node)
        sizes = shape(source)
        size = sizes[argument(node, "dim")] if sizes else 1
        if not isinstance(size, int):
            return "the size of the dimension varies"
        if size == 0:
            return "the dimension is empty"
        operator = node.target._schema.name.removeprefix("aten::")  # type: ignore[union-attr]
        if operator in _SCANS:
            return _SCANS[operator]
        return _extreme(torch.ge if operator == "cummax" else torch.le, with_indices=1 in results_read(node))


def _cumprod(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    if dtype is None and not x.is_floating_point():
        dtype = torch.int64
    y = x if dtype is None else x.to(dtype)
    return _scan(y, dim, torch.mul)


def _logcumsumexp(x: Tensor, dim: int) -> Tensor:
    return _scan(x, dim, _log_add_exp)


_SCANS: dict[str, Function] = {"cumprod": _cumprod, "logcumsumexp": _logcumsumexp}


def _scan(x: Tensor, dim: int, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    for reach in _reaches(x, dim):
        head, early, late = _parts(x, dim, reach)
        x = torch.cat([head, combine(early, late)], dim)
    return x


def _log_add_exp(a: Tensor, b: Tensor) -> Tensor:
    larger, smaller = torch.where(a >= b, a, b), torch.where(a >= b, b, a)
    # Equal infinities have no difference.
    return larger + torch.where(a == b, math.log(2), (smaller - larger).exp().log1p())


def _extreme(beats: Callable[[Tensor, Tensor], Tensor], *, with_indices: bool) -> Function:
    def scan(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        y, at = x, _positions(x, dim)
        for reach in _reaches(x, dim):
            head, early, late = _parts(y, dim, reach)
            chosen = beats(late, early)
            if x.is_floating_point():
                chosen = chosen | late.isnan()
            y = torch.cat([head, torch.where(chosen, late, early)], dim)
            if with_indices:
                first, before, after = _parts(at, dim, reach)
                at = torch.cat([first, torch.where(chosen, after, before)], dim)
        return y, at

    return scan


def _reaches(x: Tensor, dim: int) -> list[int]:
    size = int(x.shape[dim]) if x.dim() else 1
    return [2**step for step in range((size - 1).bit_length())]


def _parts(x: Tensor, dim: int, reach: int) -> tuple[Tensor, Tensor, Tensor]:
    """The first `reach` elements, and every element that has another `reach` places after it, with that other one."""
    size = int(x.shape[dim])
    return x.narrow(dim, 0, reach), x.narrow(dim, 0, size - reach), x.narrow(dim, reach, size - reach)


def _positions(x: Tensor, dim: int) -> Tensor:
    if x.dim() == 0:
        return torch.zeros_like(x, dtype=torch.int64)
    ahead = [1] * x.dim()
    ahead[dim] = int(x.shape[dim])
    return torch.arange(int(x.shape[dim])).reshape(ahead).expand(x.shape)
