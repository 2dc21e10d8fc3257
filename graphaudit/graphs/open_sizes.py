"""Functions of torch that fix sizes while they are traced, replaced by ones that compute the same and do not.

`cdist` asks in C++ whether there are more than 25 rows, `take_along_dim` and `kron` compute shapes in numbers, so that
a batch that may vary becomes a constant, or gets a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

_KEY = torch._C.DispatchKey.CompositeImplicitAutograd


def _cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Tensor:  # noqa: ARG001
    distance = (x1.unsqueeze(-2) - x2.unsqueeze(-3)).abs()
    if p == 0:
        return (distance != 0).to(distance.dtype).sum(-1)
    if p == math.inf:
        return distance.amax(-1)
    return distance.pow(p).sum(-1).pow(1 / p)


def _take_along_dim(self: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    if dim is None:
        return self.flatten().gather(0, indices.flatten())
    wanted, source = list(indices.shape), list(self.shape)
    wanted[dim] = source[dim] = 1
    common = list(torch.broadcast_shapes(source, wanted))  # type: ignore[no-untyped-call]
    taken = indices.expand(_with(common, dim, indices.shape[dim]))
    return self.expand(_with(common, dim, self.shape[dim])).gather(dim, taken)


def _with(sizes: list[Any], dim: int, size: Any) -> list[Any]:
    return [size if axis == dim % len(sizes) else s for axis, s in enumerate(sizes)]


def _kron(self: Tensor, other: Tensor) -> Tensor:
    rank = max(self.dim(), other.dim())
    left, right = (t.reshape((1,) * (rank - t.dim()) + tuple(t.shape)) for t in (self, other))
    sizes = [a * b for a, b in zip(left.shape, right.shape)]
    for axis in range(rank):
        left, right = left.unsqueeze(2 * axis + 1), right.unsqueeze(2 * axis)
    return (left * right).reshape(sizes)


COMPOSITES: dict[Any, Callable[..., Tensor]] = {
    torch.ops.aten.cdist.default: _cdist,
    torch.ops.aten.kron.default: _kron,
    torch.ops.aten.take_along_dim.default: _take_along_dim,
}


@contextmanager
def open_sizes() -> Iterator[None]:
    """While it lasts, traces of these functions leave sizes open that vary."""
    kept = {op: (op.py_kernels.get(_KEY), decomposition_table.get(op)) for op in COMPOSITES}
    for op, function in COMPOSITES.items():
        _set(op, function, function)
    try:
        yield
    finally:
        for op, (kernel, decomposition) in kept.items():
            _set(op, kernel, decomposition)


def _set(op: Any, kernel: Any, decomposition: Any) -> None:
    tables: list[tuple[dict[Any, Any], Any, Any]] = [
        (op.py_kernels, _KEY, kernel),  # what a trace asks for
        (decomposition_table, op, decomposition),  # what fake tensors ask for
    ]
    for table, key, value in tables:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    op._dispatch_cache.clear()
