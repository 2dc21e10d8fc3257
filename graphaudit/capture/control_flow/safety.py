"""What the side that is not taken computes: its indices are valid, its divisors not zero, its gradients finite.

Both sides of a branch run. On the side that is not taken an index may lie outside, an integer divisor may be zero, a
logarithm of zero has an infinite gradient, which the mask turns into NaN (0 · ∞). So the operand is replaced where the
mask is false ("double where"); where it is true nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

# Position of the index among the arguments, for functions on (tensor, dim, index, …) and on (index, table).
_INDEXED = {
    **dict.fromkeys(("gather", "index_select", "index_add", "index_copy", "index_fill", "scatter"), (2, "index")),
    **dict.fromkeys(("scatter_add", "scatter_reduce", "index_reduce"), (2, "index")),
    **dict.fromkeys(("take_along_dim",), (1, "indices")),
    **dict.fromkeys(("take", "put"), (1, "index")),
    **dict.fromkeys(("embedding", "one_hot"), (0, "input")),
}
# An operand outside of whose domain, or at whose edge, a gradient is not finite; and a value that is inside.
_DOMAINS = {
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "lgamma", "digamma"), 1.0),
    **dict.fromkeys(("asin", "acos", "atanh", "arcsin", "arccos", "arctanh", "erfinv", "log1p", "tan"), 0.0),
    **dict.fromkeys(("exp", "expm1", "exp2", "sinh", "cosh"), 0.0),
    **dict.fromkeys(("logit",), 0.5),
    **dict.fromkeys(("acosh", "arccosh"), 2.0),
}
_DIVISIONS = (
    *("div", "true_divide", "divide", "floor_divide", "remainder", "fmod"),
    *("__truediv__", "__floordiv__", "__mod__", "__itruediv__", "__ifloordiv__", "__imod__"),
)
_DIVIDED = ("__rtruediv__", "__rfloordiv__", "__rmod__", "__rdiv__")  # the tensor is the divisor
_POWERS = ("pow", "__pow__", "__ipow__", "float_power")


def made_safe(
    func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], mask: torch.Tensor
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with operands replaced where `mask` is false."""
    name = getattr(func, "__name__", "")
    plain = name if name.startswith("__") else name.rstrip("_")
    args = list(args)
    if plain in _INDEXED:
        _put(args, kwargs, *_INDEXED[plain], lambda index: _inside(index, mask))
    elif plain in ("__getitem__", "__setitem__") and len(args) > 1:
        args[1] = _key(args[1], mask)
    elif plain in ("nonzero", "argwhere"):
        args[0] = _some(args[0], mask)
    elif plain in ("index_put", "_index_put_impl") and len(args) > 1:
        args[1] = _key(args[1], mask)
    elif plain in _DOMAINS:
        _put(args, kwargs, 0, "input", lambda x: _within(x, _DOMAINS[plain], mask))
    elif plain in _DIVISIONS:
        _put(args, kwargs, 1, "other", lambda x: _within(x, 1, mask))
    elif plain in _DIVIDED or plain in _POWERS:
        _put(args, kwargs, 0, "input", lambda x: _within(x, 1, mask))
    return tuple(args), kwargs


def _put(args: list[Any], kwargs: dict[str, Any], at: int, name: str, safe: Callable[[Any], Any]) -> None:
    if len(args) > at:
        args[at] = safe(args[at])
    elif name in kwargs:
        kwargs[name] = safe(kwargs[name])


def _key(key: Any, mask: torch.Tensor) -> Any:
    if isinstance(key, tuple | list):
        return type(key)(_key(item, mask) for item in key)
    return _inside(key, mask)


def _some(chosen: Any, mask: torch.Tensor) -> Any:
    """A choice of rows as it is where the mask is true, else all rows, so that what follows finds one."""
    if not isinstance(chosen, torch.Tensor):
        return chosen
    return torch.logical_or(chosen != 0 if chosen.dtype is not torch.bool else chosen, torch.logical_not(mask))


def _inside(index: Any, mask: torch.Tensor) -> Any:
    """An index as it is where the mask is true, else 0, which every dimension that is not empty has."""
    if not isinstance(index, torch.Tensor) or index.dtype in (torch.bool, torch.uint8) or index.is_floating_point():
        return index
    return torch.where(mask, index, 0)


def _within(operand: Any, value: float, mask: torch.Tensor) -> Any:
    if not isinstance(operand, torch.Tensor) or operand.dtype is torch.bool or operand.is_complex():
        return operand
    return torch.where(mask, operand, value)
