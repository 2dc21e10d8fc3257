"""Between which values a tensor lies by what made it: a bound of a loop that the code itself states.

`argmax` gives a position, `clamp` the limits that it is called with; reshaping, indexing, rounding and casts keep them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Limits = tuple[float | None, float | None]

_NAME = "_graphaudit_limits"
_KEPT = {
    *("long", "int", "short", "to", "type", "float", "double", "cpu", "detach", "clone", "contiguous", "__getitem__"),
    *("reshape", "view", "squeeze", "unsqueeze", "flatten", "select", "amax", "amin", "max", "min", "median", "expand"),
}
_ROUNDED: dict[str, Callable[[float], float]] = {
    "round": round,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "fix": math.trunc,
}


def limits_of(tensor: Any) -> Limits:
    """(lowest, highest) value, each None where it is not known."""
    limits: Limits = getattr(tensor, _NAME, (None, None))
    return limits


def carry(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
    """Note the limits of what a function of torch's has returned."""
    if not isinstance(result, torch.Tensor) or not args or not isinstance(args[0], torch.Tensor):
        return
    limits: Limits = (None, None)
    if name in ("argmax", "argmin"):
        limits = _positions(args[0], args[1] if len(args) > 1 else kwargs.get("dim"))
    elif name in ("clamp", "clip", "clamp_min", "clamp_max"):
        limits = _clamped(name, args, kwargs)
    elif name in _KEPT and not (name in ("max", "min") and len(args) > 1 and isinstance(args[1], torch.Tensor)):
        limits = limits_of(args[0])
    elif name in _ROUNDED:
        limits = tuple(None if v is None else _ROUNDED[name](v) for v in limits_of(args[0]))  # type: ignore[assignment]
    if limits != (None, None):
        setattr(result, _NAME, limits)


def _positions(tensor: torch.Tensor, dim: Any) -> Limits:
    size = tensor.numel() if dim is None else tensor.shape[dim]
    return (0, size - 1 if isinstance(size, int) else None)


def _clamped(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Limits:
    bounds = list(args[1:])
    if name == "clamp_max":
        bounds.insert(0, None)
    bounds += [None] * (2 - len(bounds))
    given = kwargs.get("min", bounds[0]), kwargs.get("max", bounds[1])
    low, high = (float(v) if isinstance(v, int | float) else None for v in given)
    own = limits_of(args[0])
    return (low if low is not None else own[0], high if high is not None else own[1])
