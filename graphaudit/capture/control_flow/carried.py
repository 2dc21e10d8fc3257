"""What a pass of a loop over a dimension that varies finds in a variable, and what it may do with it (varying.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from graphaudit.capture.control_flow.numbers import Number, is_scalar
from graphaudit.capture.control_flow.rows import rows_of
from graphaudit.capture.control_flow.sizes import is_size

_SUM = "sum"


class Dependent(BaseException):
    """A pass reads what an earlier one left. Not an Exception: no `try` of the user's is to see it."""


class Carried:
    """What a variable holds when a pass begins. It can be added to, or compared by `max` and `min`; else Dependent."""

    def __init__(self, before: Any) -> None:
        self.before = before

    def __add__(self, value: Any) -> Reduced:
        return Reduced(self, _SUM, value)

    __radd__ = __iadd__ = __add__

    def __sub__(self, value: Any) -> Reduced:
        return Reduced(self, _SUM, -value)

    __isub__ = __sub__

    def __bool__(self) -> bool:
        raise Dependent

    def __getattr__(self, name: str) -> Any:
        raise Dependent

    def __getitem__(self, key: Any) -> Any:
        raise Dependent

    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        operation = _TORCH.get(func)
        mine = [a for a in args if isinstance(a, Carried)]
        if operation is None or kwargs or len(args) != 2 or len(mine) != 1:
            raise Dependent
        return Reduced(mine[0], operation, next(a for a in args if a is not mine[0]))


def _refuses(*_: Any) -> Any:
    raise Dependent


for _name in (
    *("mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod", "pow", "rpow", "matmul", "rmatmul"),
    *("rsub", "and", "rand", "or", "ror", "xor", "lt", "le", "gt", "ge", "eq", "ne", "neg", "abs", "invert", "float"),
    *("int", "index", "len", "iter", "setitem", "contains", "imul", "itruediv", "iand", "ior"),
):
    setattr(Carried, f"__{_name}__", _refuses)

_TORCH: dict[Any, str] = {
    **dict.fromkeys((torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__), _SUM),
    **dict.fromkeys((torch.maximum, Tensor.maximum), "maximum"),
    **dict.fromkeys((torch.minimum, Tensor.minimum), "minimum"),
}


class Reduced(Carried):
    """A carried value with something of this pass added to it, or the greater or lesser of the two."""

    carried: Carried
    operation: str
    value: Any

    def __init__(self, carried: Carried, operation: str, value: Any) -> None:
        if isinstance(value, Carried) or not (isinstance(value, Tensor) or is_scalar(value)):
            raise Dependent
        if isinstance(carried, Reduced):
            if operation != carried.operation or operation != _SUM:
                raise Dependent
            carried, value = carried.carried, carried.value + value
        super().__init__(carried.before)
        self.carried, self.operation, self.value = carried, operation, value

    def over(self, count: Any) -> Any:
        """What the variable holds after all passes."""
        value = Number.of_size(self.value) if is_size(self.value) else self.value
        if not isinstance(value, Tensor | Number):  # the same on every pass
            value = Number(torch.scalar_tensor(value), type(value)) if self.operation != _SUM else value
        if not isinstance(value, Tensor | Number):
            return self.before + value * count
        rows = rows_of(value.tensor if isinstance(value, Number) else value, count)
        if isinstance(self.before, Tensor) and self.before.dim() > rows.dim() - 1:
            rows = rows.reshape([rows.shape[0], *[1] * (self.before.dim() + 1 - rows.dim()), *rows.shape[1:]])
        total: Any = _REDUCTIONS[self.operation](rows)
        if isinstance(value, Number):
            total = Number(total, int if value.kind is bool else value.kind)
        return self.before + total if self.operation == _SUM else _extremes(self.operation)(self.before, total)


def _compared(rows: Tensor, greatest: bool) -> Tensor:
    """Python's `max` and `min` of many: a NaN never wins."""
    if rows.is_floating_point():
        rows = torch.where(torch.isnan(rows), -torch.inf if greatest else torch.inf, rows)
    return rows.amax(0) if greatest else rows.amin(0)


_REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    _SUM: lambda rows: rows.sum(0),
    "maximum": lambda rows: rows.amax(0),
    "minimum": lambda rows: rows.amin(0),
    "max": lambda rows: _compared(rows, True),
    "min": lambda rows: _compared(rows, False),
}


def _extremes(operation: str) -> Callable[[Any, Any], Any]:
    from graphaudit.capture.control_flow.reductions import extreme

    return extreme(operation == "max") if operation in ("max", "min") else getattr(torch, operation)


def reduced_extreme(greatest: bool, values: Sequence[Any]) -> Any:
    """Python's `max` or `min` where a carried value is among the values."""
    carried = [v for v in values if isinstance(v, Carried)]
    if len(carried) != 1 or len(values) != 2:
        raise Dependent
    return Reduced(carried[0], "max" if greatest else "min", next(v for v in values if v is not carried[0]))


def selected(condition: Number, taken: Any, other: Any) -> Any:
    """The value after a branch, one side of which left a carried value."""
    from graphaudit.capture.control_flow.select import select

    ends = [v.carried if isinstance(v, Reduced) else v for v in (taken, other)]
    added = [v.value if isinstance(v, Reduced) else None for v in (taken, other)]
    sums = all(v.operation == _SUM for v in (taken, other) if isinstance(v, Reduced))
    if ends[0] is not ends[1] or not isinstance(ends[0], Carried) or not sums:
        raise Dependent
    sample = next(v for v in added if v is not None)
    zero = torch.zeros_like(sample) if isinstance(sample, Tensor) else 0
    return Reduced(ends[0], _SUM, select(condition, *(zero if v is None else v for v in added)))
