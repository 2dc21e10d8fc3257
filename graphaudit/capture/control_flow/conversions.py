"""Python's functions on tensors and on numbers that were read out of them: `int`, `max`, `math.sqrt`, `torch.full`."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from graphaudit.capture.control_flow import arrays, numbers
from graphaudit.capture.control_flow.arrays import Array
from graphaudit.capture.control_flow.limits import limits_of
from graphaudit.capture.control_flow.numbers import Number, is_scalar, kind_of
from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.control_flow.sizes import is_size, kind_of_size


def has_data(value: Any) -> bool:
    """Whether a tensor, a number out of one, or a size that varies is in `value`."""
    leaves = pytree.tree_leaves(value)
    return any(isinstance(leaf, torch.Tensor | Number | Array) or is_size(leaf) for leaf in leaves)


def call_with_numbers(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function of torch's whose arguments hold numbers: beside tensors, they promote as Python's do."""
    special = _TORCH.get(func)
    if special is not None:
        return special(*args, **kwargs)
    leaves = pytree.tree_leaves((args, kwargs))
    dtype = promoted([leaf for leaf in leaves if isinstance(leaf, torch.Tensor)])

    def lower(leaf: Any) -> Any:
        if not isinstance(leaf, Number):
            return leaf
        return leaf.beside(dtype) if dtype is not None else leaf.wide

    lowered = pytree.tree_map(lower, (tuple(args), dict(kwargs)))
    return func(*lowered[0], **lowered[1])


def promoted(tensors: Sequence[torch.Tensor]) -> torch.dtype | None:
    """The dtype that an operation on `tensors` has; None without tensors."""
    if not tensors:
        return None
    shaped = [t for t in tensors if t.dim()] or list(tensors)
    dtype = shaped[0].dtype
    for tensor in shaped[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def rebuilt(data: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> torch.Tensor:
    """`torch.tensor(data)` where `data` holds values of tensors: numbers in nested lists, or one tensor."""
    del kwargs  # the device is the graph's, and gradients are off
    data = arrays.tensor_of(data)
    tensor = _stacked(data)
    if dtype is None and not isinstance(data, torch.Tensor):
        kinds = {kind_of(leaf) for leaf in pytree.tree_leaves(data) if is_scalar(leaf)}
        if float in kinds:
            dtype = torch.get_default_dtype()
    return tensor.to(dtype) if dtype is not None else tensor.clone()


def _stacked(data: Any) -> torch.Tensor:
    if isinstance(data, torch.Tensor):
        return data
    if is_scalar(data):
        return numbers.tensor_of(data)
    if isinstance(data, list | tuple) and data:
        items = [_stacked(item) for item in data]
        dtype = items[0].dtype
        for item in items[1:]:
            dtype = torch.promote_types(dtype, item.dtype)
        return torch.stack([item.to(dtype) for item in items])
    raise Refused("a tensor is built from Python data that a graph cannot follow")


def _as_tensor(data: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> torch.Tensor:
    data = arrays.tensor_of(data)
    if isinstance(data, torch.Tensor):
        return data if dtype is None else data.to(dtype)
    return rebuilt(data, dtype, **kwargs)


def _full(size: Any, fill_value: Any, *, dtype: torch.dtype | None = None, **kwargs: Any) -> torch.Tensor:
    del kwargs
    if not isinstance(fill_value, Number):
        fill_value = numbers.Number(torch.scalar_tensor(fill_value), kind_of(fill_value))
    inferred = {bool: torch.bool, int: torch.int64, float: torch.get_default_dtype()}[fill_value.kind]
    value: torch.Tensor = fill_value.tensor.to(dtype or inferred)
    return value.expand(size).clone()


def _full_like(
    tensor: torch.Tensor, fill_value: Any, *, dtype: torch.dtype | None = None, **kwargs: Any
) -> torch.Tensor:
    return _full(tensor.shape, fill_value, dtype=dtype or tensor.dtype, **kwargs)


def _clamp(tensor: torch.Tensor, min: Any = None, max: Any = None) -> torch.Tensor:  # torch's own names
    for bound, limit in ((min, torch.maximum), (max, torch.minimum)):
        if bound is None:
            continue
        if is_scalar(bound):
            kind = kind_of(bound)
            if kind is float and not tensor.is_floating_point():
                tensor = tensor.to(torch.get_default_dtype())
            bound = numbers.tensor_of(bound).to(tensor.dtype)
        tensor = limit(tensor, bound)
    return tensor


def _getitem(target: torch.Tensor, key: Any) -> Any:
    from graphaudit.capture.control_flow.tables import get_item

    return get_item(target, key)


def _setitem(target: torch.Tensor, key: Any, value: Any) -> None:
    from graphaudit.capture.control_flow.tables import set_item

    if has_number(key):
        set_item(target, key, value)
    else:
        target[key] = value.beside(target.dtype) if isinstance(value, Number) else value


def has_number(value: Any) -> bool:
    """Whether a number out of a tensor is in `value`, slices included."""
    if isinstance(value, slice):
        return any(isinstance(v, Number) for v in (value.start, value.stop, value.step))
    if isinstance(value, tuple | list):
        return any(has_number(v) for v in value)
    return isinstance(value, Number)


_TORCH: dict[Any, Callable[..., Any]] = {
    torch.full: _full,
    torch.full_like: _full_like,
    torch.Tensor.new_full: lambda t, size, value, **k: _full(size, value, **({"dtype": t.dtype} | k)),
    torch.clamp: _clamp,
    torch.clip: _clamp,
    torch.Tensor.clamp: _clamp,
    torch.Tensor.clip: _clamp,
    torch.Tensor.__getitem__: _getitem,
    torch.Tensor.__setitem__: _setitem,
    torch.tensor: rebuilt,
    torch.as_tensor: _as_tensor,
}


def _int(value: Any) -> Any:
    if isinstance(value, torch.SymInt):
        return value
    number = _number(value)
    result = numbers.as_int(number)
    return _bounded(result, value)


def _number(value: Any) -> Number:
    if is_size(value):
        return Number.of_size(value)
    return value if isinstance(value, Number) else Number.of(arrays.tensor_of(value))


def _bounded(number: Number, source: Any) -> Number:
    low, high = limits_of(source)
    if number.low is None and number.high is None:
        number.low, number.high = (None if v is None else int(v) for v in (low, high))
    return number


def _type(*args: Any) -> Any:
    return args[0].kind if len(args) == 1 and isinstance(args[0], Number) else type(*args)


def _divmod(left: Any, right: Any) -> Any:
    return left // right, left % right


def _power(base: Any, exponent: Any, modulus: int | None = None) -> Any:
    return base**exponent if modulus is None else (base**exponent) % modulus


def _abs(value: Any) -> Any:
    return abs(value)


def _round(value: Any, digits: int | None = None) -> Any:
    return value.__round__(digits) if isinstance(value, Number) else round(value, digits)


def _isinstance(value: Any, types: Any) -> bool:
    if isinstance(value, Number) or is_size(value):
        kind = value.kind if isinstance(value, Number) else kind_of_size(value)
        return issubclass(kind, types) or isinstance(value, types)
    return isinstance(value, types)


def _float(value: Any) -> Any:
    return numbers.as_float(_number(value))


def _bool(value: Any) -> Any:
    from graphaudit.capture.control_flow.branches import condition

    return condition(value)  # of a size: the graph's own where it is not the same at every size


BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.int: _int,
    builtins.float: _float,
    builtins.bool: _bool,
    builtins.abs: _abs,
    builtins.round: _round,
    builtins.isinstance: _isinstance,
    builtins.type: _type,
    builtins.divmod: _divmod,
    builtins.pow: _power,
}


def _in_double(function: Callable[..., torch.Tensor]) -> Callable[..., Number]:
    def call(*args: Any) -> Number:
        tensors = [numbers.tensor_of(a if is_scalar(a) else Number.of(a), float) for a in args]  # sizes too
        return Number(function(*tensors), float)

    return call


def _to_int(function: Callable[..., torch.Tensor]) -> Callable[..., Number]:
    def call(value: Any) -> Number:
        return Number(function(_number(value).wide.to(torch.float64)).to(torch.int64), int)

    return call


MATH: dict[Any, Callable[..., Any]] = {
    getattr(math, name): _in_double(getattr(torch, name))
    for name in (
        *("sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan"),
        *("atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "hypot", "copysign", "fmod", "erf", "erfc"),
    )
} | {
    math.pow: _in_double(torch.pow),
    math.fabs: _in_double(torch.abs),
    math.degrees: _in_double(torch.rad2deg),
    math.radians: _in_double(torch.deg2rad),
    math.floor: _to_int(torch.floor),
    math.ceil: _to_int(torch.ceil),
    math.trunc: _to_int(torch.trunc),
    math.isclose: lambda a, b, *, rel_tol=1e-9, abs_tol=0.0: _isclose(_number_of(a), _number_of(b), rel_tol, abs_tol),
    math.isnan: lambda v: Number(torch.isnan(_number(v).tensor), bool, 0, 1),
    math.isinf: lambda v: Number(torch.isinf(_number(v).tensor), bool, 0, 1),
    math.isfinite: lambda v: Number(torch.isfinite(_number(v).tensor), bool, 0, 1),
}


def _number_of(value: Any) -> Any:
    return value if is_scalar(value) else _number(value)


def _isclose(a: Any, b: Any, rel_tol: float, abs_tol: float) -> Number:
    """Python's own rule: |a - b| <= max(rel_tol * max(|a|, |b|), abs_tol), and equal infinities are close."""
    one, other = numbers.tensor_of(a, float), numbers.tensor_of(b, float)
    apart = (one - other).abs()
    limit = torch.clamp(rel_tol * torch.maximum(one.abs(), other.abs()), min=abs_tol)
    near = torch.logical_and(apart <= limit, torch.isfinite(apart))
    return Number(torch.logical_or(one == other, near), bool, 0, 1)


def tolist(tensor: torch.Tensor) -> Any:
    """`tensor.tolist()`: nested lists of numbers. Raises Refused where a size varies."""
    if tensor.dim() == 0:
        return Number.of(tensor)
    if not isinstance(tensor.shape[0], int):
        raise Refused("tolist() of a tensor whose size varies")
    return [tolist(row) for row in tensor.unbind(0)]
