"""How far comparisons of tensors are from coming out otherwise.

A margin is a number for each element of a boolean tensor: positive where the element is true, negative where it is
false, and 0 where the two sides of the comparison meet. With gradients on it has a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from graphaudit.paths.constants import Constants

_CONVERSIONS = ("bool", "item", "int", "float", "index", "tolist", "array", "numpy", "is_nonzero")
_SHAPES = (
    *("getitem", "view", "reshape", "squeeze", "unsqueeze", "flatten", "expand", "clone", "detach", "contiguous"),
    *("select", "permute", "transpose", "t", "unbind"),
)


class Margins(TorchFunctionMode):
    """Follows comparisons while it is active; tells `converted(name, tensor, result)` what becomes a Python value."""

    def __init__(self, converted: Callable[[str, torch.Tensor, Any], None], constants: Constants) -> None:
        super().__init__()
        self._constants = constants
        self.calls = 0  # of torch, so far
        self._converted = converted
        self._known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # the tensor is held, so that its id stays its

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The margins of a tensor's truth, of its shape; None where nothing is known about them."""
        known = self._known.get(id(tensor))
        if known is not None:
            return known[1]
        return None if tensor.dtype is torch.bool or tensor.is_complex() else _compare("ne", tensor, 0)

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        self.calls += 1
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        self._constants.follow(name, args, kwargs, result)
        name = name.strip("_")
        if name in _CONVERSIONS and args and isinstance(args[0], torch.Tensor):
            self._converted(name, args[0], result)
        elif isinstance(result, torch.Tensor) and result.dtype is torch.bool:
            try:
                margin = self._follow(func, name, args, kwargs)
            except (RuntimeError, TypeError, ValueError, IndexError):  # a form of the call that is not followed
                margin = None
            if margin is not None and margin.shape == result.shape:
                self._known[id(result)] = (result, margin)
        return result

    def _follow(self, func: Callable[..., Any], name: str, args: Any, kwargs: Any) -> torch.Tensor | None:
        if name in _COMPARISONS:
            return _compare(_COMPARISONS[name], args[0], args[1] if len(args) > 1 else kwargs["other"])
        if name in ("any", "all"):
            return _reduce(name == "any", self._certain(args[0]), *args[1:], **kwargs)
        if name in ("logical_and", "bitwise_and", "and", "rand"):
            return torch.minimum(self._certain(args[0]), self._certain(args[1]))
        if name in ("logical_or", "bitwise_or", "or", "ror"):
            return torch.maximum(self._certain(args[0]), self._certain(args[1]))
        if name in ("logical_not", "bitwise_not", "invert"):
            return -self._certain(args[0])
        if name in _SHAPES and isinstance(args[0], torch.Tensor) and id(args[0]) in self._known:
            made: torch.Tensor = func(self._known[id(args[0])][1], *args[1:], **kwargs)
            return made
        return None

    def _certain(self, value: Any) -> torch.Tensor:
        """The margins of a truth; infinite where nothing is known that would change it."""
        tensor = torch.as_tensor(value)
        known = self._known.get(id(value))
        return known[1] if known is not None else torch.where(tensor != 0, torch.inf, -torch.inf).double()


_COMPARISONS = {
    **dict.fromkeys(("lt", "less"), "lt"),
    **dict.fromkeys(("le", "less_equal"), "le"),
    **dict.fromkeys(("gt", "greater"), "gt"),
    **dict.fromkeys(("ge", "greater_equal"), "ge"),
    **dict.fromkeys(("eq",), "eq"),
    **dict.fromkeys(("ne", "not_equal"), "ne"),
}


def difference(symbol: str, left: Any, right: Any) -> Any:
    """The margin of `left symbol right`, for tensors or numbers."""
    if symbol in ("lt", "le"):
        return right - left
    if symbol in ("gt", "ge"):
        return left - right
    return abs(left - right) if symbol == "ne" else -abs(left - right)


def number(value: Any) -> Any:
    """A truth as 0 or 1, which can be subtracted."""
    return int(value) if isinstance(value, bool) else value


def _compare(symbol: str, left: Any, right: Any) -> torch.Tensor:
    one, other = (v.double() if isinstance(v, torch.Tensor) else number(v) for v in (left, right))
    made: torch.Tensor = difference(symbol, one, other)
    return made


def _reduce(largest: bool, margin: torch.Tensor, dim: Any = None, keepdim: bool = False) -> torch.Tensor:
    if dim is None:
        return margin.max() if largest else margin.min()
    return margin.amax(dim, keepdim) if largest else margin.amin(dim, keepdim)
