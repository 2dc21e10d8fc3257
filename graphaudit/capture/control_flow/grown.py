"""Lists that grew over a dimension that varies: one entry stands for what all passes appended (varying.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from graphaudit.capture.control_flow.numbers import Number, kind_of, tensor_of
from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.control_flow.rows import LOOP, rows_of


class Appended:
    """In a list: what all passes of a loop appended to it, `items` of each pass."""

    def __init__(self, items: list[Any], count: Any) -> None:
        if not all(isinstance(item, Tensor | Number) for item in items):
            raise Refused("a list of other things than tensors and numbers grows over a dimension that varies", LOOP)
        self.items = items
        self.count = count

    def tensor(self) -> Tensor:
        """All items, in their order, along dimension 0."""
        parts = [rows_of(i.tensor if isinstance(i, Number) else i, self.count) for i in self.items]
        return parts[0] if len(parts) == 1 else torch.stack(parts, 1).flatten(0, 1)

    def __getattr__(self, name: str) -> Any:
        raise Refused("a list that grew over a dimension that varies can be stacked, summed or looped over", LOOP)


def joined(function: Callable[..., Any], tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """`torch.stack` or `torch.cat` of a list that grew over a dimension that varies."""
    parts = []
    for value in tensors:
        if not isinstance(value, Appended):
            parts.append(value.unsqueeze(dim) if function is torch.stack else value)
        elif function is torch.stack:
            parts.append(value.tensor().movedim(0, dim))
        else:
            rows = value.tensor()
            dim = dim % (rows.dim() - 1)
            parts.append(rows.movedim(0, dim).flatten(dim, dim + 1))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


def _rebuilt(data: Sequence[Any], dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    items = [item for value in data for item in (value.items if isinstance(value, Appended) else [value])]
    numbers = [v for v in items if not isinstance(v, Tensor)]
    tensors = [v if isinstance(v, Appended | Tensor) else tensor_of(v) for v in data]
    result = joined(torch.stack, tensors)
    if dtype is None and any(kind_of(v) is float for v in numbers):
        dtype = torch.get_default_dtype()
    return result if dtype is None else result.to(dtype)


def _total(values: Sequence[Any], start: Any = 0) -> Any:
    for value in values:
        start = start + (value.tensor().sum(0) if isinstance(value, Appended) else value)
    return start


def _length(values: Sequence[Any]) -> Any:
    return sum(v.count * len(v.items) if isinstance(v, Appended) else 1 for v in values)


OF_GROWN: dict[Any, Callable[..., Any]] = {
    torch.stack: partial(joined, torch.stack),
    torch.cat: partial(joined, torch.cat),
    torch.tensor: _rebuilt,
    sum: _total,
    len: _length,
}
