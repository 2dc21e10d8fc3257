"""Sizes that vary: what is known of them at every size, and how a graph holds them as values."""

from __future__ import annotations

from typing import Any, TypeGuard

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

Size = torch.SymInt | torch.SymFloat | torch.SymBool
_KINDS: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


def is_size(value: Any) -> TypeGuard[Size]:
    """Whether `value` is a size that varies, or was computed from such."""
    return isinstance(value, Size) and bool(value.node.expr.free_symbols)


def depends_on_data(value: Any) -> bool:
    """Whether a size is known only when the graph runs, as that of `nonzero()`."""
    return isinstance(value, torch.SymInt) and bool(free_unbacked_symbols(value))


def kind_of_size(value: Size) -> type:
    """bool, int or float."""
    return _KINDS[type(value)]


def limits(value: Size) -> tuple[int | None, int | None]:
    """Bounds of an integer that hold at every size from 1 on; None where there is none.

    torch's own ranges start at 2: torch.export takes no example of size 1 for one that varies, and takes the size for
    larger then (https://docs.pytorch.org/docs/stable/export/programming_model.html).
    """
    if not isinstance(value, torch.SymInt):
        return (0, 1) if isinstance(value, torch.SymBool) else (None, None)
    found = _range(value)
    low, high = (int(end) if end.is_Integer else None for end in (found.lower, found.upper))
    return low, high


def is_never_fixed(value: Size) -> bool:
    """Whether torch leaves the size open: it takes a computed one that may be 1 for greater, and so limits it."""
    return bool(value.node.expr.is_Symbol) or (limits(value)[0] or 0) > 1


def decided(value: torch.SymBool) -> bool | None:
    """The truth of a condition on sizes, where it is the same at every size from 1 on; else None."""
    found = _range(value)
    return bool(found.lower) if found.lower == found.upper else None


def tensor_of_size(value: Size, dtype: torch.dtype) -> torch.Tensor:
    """The size as a 0-d tensor."""
    return torch.scalar_tensor(value, dtype=dtype)  # type: ignore[arg-type]


def _range(value: Size) -> Any:
    expression = value.node.expr
    empty = free_unbacked_symbols(expression)  # rows that data chooses may be none
    return bound_sympy(expression, {s: ValueRanges(0 if s in empty else 1, int_oo) for s in expression.free_symbols})
