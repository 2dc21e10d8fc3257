"""Python numbers whose value a graph knows only when it runs: read out of tensors, or sizes that vary."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from graphaudit.capture.control_flow.limits import limits_of
from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.control_flow.sizes import Size, kind_of_size, limits, tensor_of_size

_RANK = {bool: 0, int: 1, float: 2}
_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64}


class Number:
    """A bool, int or float of Python's, held as a 0-d tensor (bool, int64, float64).

    With another number it computes as Python does, in float64 or int64. Beside a tensor it promotes as a Python number
    does: the tensor keeps its dtype unless the number is of a higher kind
    (https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc).
    `low` and `high` bound an integer where they are known; `seen` is the largest on the inputs tried, where it comes
    from arguments. Python cannot ask for its value: that raises Refused.
    """

    __slots__ = ("facts", "high", "kind", "low", "opposite", "origin", "seen", "shift", "tensor")

    # The binary operators are made at the end of this file; these are the ones that the engine uses itself.
    __sub__: ClassVar[Callable[[Any, Any], Any]]
    __lt__: ClassVar[Callable[[Any, Any], Any]]
    __ge__: ClassVar[Callable[[Any, Any], Any]]

    def __init__(self, tensor: torch.Tensor, kind: type, low: int | None = None, high: int | None = None) -> None:
        self.tensor = tensor
        self.kind = kind
        self.low = low
        self.high = high
        self.seen: int | None = None
        self.opposite: Number | None = None  # of a bool: its negation
        self.facts: tuple[Number, ...] = ()  # of a bool: what else is true where it is true
        self.origin: tuple[Number, Any, Any] | None = None  # after a branch: its condition, and the two values
        self.shift: tuple[Number, int] | None = None  # an integer as another one plus a known one

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Number:
        """What `tensor.item()` gives. Raises Refused for complex tensors and for more than one element."""
        if tensor.is_complex():
            raise Refused("a complex number is read out of a tensor")
        if tensor.dim():
            if any(not isinstance(size, int) or size != 1 for size in tensor.shape):
                raise Refused(f"a single value is wanted from a tensor of shape {tuple(tensor.shape)}")
            tensor = tensor.reshape(())
        tensor = tensor.clone()  # what is written to the tensor later does not change the number
        if tensor.dtype is torch.bool:
            return cls(tensor, bool, 0, 1)
        if tensor.is_floating_point():
            return cls(tensor, float)
        low, high = limits_of(tensor)
        return cls(tensor, int, None if low is None else int(low), None if high is None else int(high))

    @classmethod
    def of_size(cls, size: Size) -> Number:
        """A size that varies, as a number among others."""
        kind = kind_of_size(size)
        return cls(tensor_of_size(size, _DTYPES[kind]), kind, *limits(size))

    @property
    def wide(self) -> torch.Tensor:
        """The value in Python's own precision."""
        return self.tensor.to(_DTYPES[self.kind])

    def beside(self, dtype: torch.dtype) -> torch.Tensor:
        """The value in the dtype that it has in an operation with a tensor of `dtype`."""
        if dtype.is_floating_point or dtype.is_complex or (self.kind is not float and dtype is not torch.bool):
            return self.tensor.to(dtype)
        if self.kind is float:
            return self.tensor.to(torch.get_default_dtype())
        return self.tensor.to(torch.int64 if self.kind is int else torch.bool)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        from graphaudit.capture.control_flow.conversions import call_with_numbers

        return call_with_numbers(func, args, kwargs or {})

    def __bool__(self) -> bool:
        raise Refused("Python needs the truth of a tensor's value here", "item-call")

    def __index__(self) -> int:
        raise Refused("Python needs a tensor's value here, as a size, a count or an index", "item-call")

    def __int__(self) -> int:
        raise Refused("Python needs a tensor's value here", "item-call")

    def __float__(self) -> float:
        raise Refused("Python needs a tensor's value here", "item-call")

    def __hash__(self) -> int:
        raise Refused("a tensor's value is used as a key", "python-table-lookup")

    def __format__(self, spec: str) -> str:
        raise Refused("a tensor's value is written into a string", "value-in-text")

    def item(self) -> Number:
        """NumPy's scalars have it too."""
        return self

    def __round__(self, digits: int | None = None) -> Number:
        if digits is None:
            return self if self.kind is not float else Number(torch.round(self.wide).to(torch.int64), int)
        return Number(torch.round(self.wide, decimals=digits), float)

    def __abs__(self) -> Number:
        return Number(torch.abs(self.wide), self.kind) if self.kind is not bool else as_int(self)

    def __neg__(self) -> Number:
        low, high = self.low, self.high
        kind = int if self.kind is bool else self.kind
        return Number(-_cast(self, kind), kind, None if high is None else -high, None if low is None else -low)

    def __pos__(self) -> Number:
        return as_int(self) if self.kind is bool else self

    def __invert__(self) -> Number:
        return Number(torch.bitwise_not(_cast(self, int)), int)

    def __trunc__(self) -> Number:
        return as_int(self)

    def __floor__(self) -> Number:
        return Number(torch.floor(self.wide).to(torch.int64), int) if self.kind is float else as_int(self)

    def __ceil__(self) -> Number:
        return Number(torch.ceil(self.wide).to(torch.int64), int) if self.kind is float else as_int(self)


Scalar = bool | int | float | Number | Size


def is_scalar(value: Any) -> bool:
    """Whether `value` is a number of Python's, one of ours, or a size."""
    return isinstance(value, bool | int | float | Number | Size)


def kind_of(value: Scalar) -> type:
    """bool, int or float."""
    if isinstance(value, Size):
        return kind_of_size(value)
    return value.kind if isinstance(value, Number) else type(value)


def as_int(value: Number) -> Number:
    """`int(value)`: truncated towards zero."""
    if value.kind is int:
        return value
    if value.kind is bool:
        return Number(value.tensor.to(torch.int64), int, value.low, value.high)
    return Number(torch.trunc(value.wide).to(torch.int64), int)


def as_float(value: Number) -> Number:
    """`float(value)`."""
    return value if value.kind is float else Number(value.tensor.to(torch.float64), float)


def as_bool(value: Number) -> Number:
    """`bool(value)`: NaN is true."""
    return value if value.kind is bool else Number(value.tensor != 0, bool, 0, 1)


def low_of(value: Scalar) -> int | None:
    """A lower bound of an integer, if one is known."""
    if isinstance(value, Number):
        return value.low if value.kind is not float else None
    if isinstance(value, Size):
        return limits(value)[0]
    return int(value) if isinstance(value, int) else None


def high_of(value: Scalar) -> int | None:
    """An upper bound of an integer, if one is known."""
    if isinstance(value, Number):
        return value.high if value.kind is not float else None
    if isinstance(value, Size):
        return limits(value)[1]
    return int(value) if isinstance(value, int) else None


def tensor_of(value: Scalar, kind: type | None = None) -> torch.Tensor:
    """A number as a 0-d tensor in Python's own precision of `kind`."""
    dtype = _DTYPES[kind or kind_of(value)]
    return value.tensor.to(dtype) if isinstance(value, Number) else torch.scalar_tensor(value, dtype=dtype)  # type: ignore[arg-type]


def _cast(value: Number, kind: type) -> torch.Tensor:
    return value.tensor.to(_DTYPES[kind])


def _arithmetic(symbol: str, function: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(left: Number, right: Any) -> Any:
        return _apply(symbol, function, left, right)

    def backward(right: Number, left: Any) -> Any:
        return _apply(symbol, function, left, right)

    return forward, backward


def _apply(symbol: str, function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if isinstance(left, torch.Tensor):
        return function(left, right.beside(left.dtype))
    if isinstance(right, torch.Tensor):
        return function(left.beside(right.dtype), right)
    if not is_scalar(left) or not is_scalar(right):
        return NotImplemented
    if symbol in _BITWISE and kind_of(left) is kind_of(right) is bool:
        return Number(function(tensor_of(left), tensor_of(right)), bool, 0, 1)
    kind = max(kind_of(left), kind_of(right), int, key=_RANK.__getitem__)
    if symbol == "/":
        kind = float
    if symbol == "**" and kind is int and not (isinstance(right, int) and right >= 0):
        raise Refused("an integer to the power of a tensor's value may be an integer or not", "item-call")
    one, other = (tensor_of(v, kind) if isinstance(v, Number | Size) else kind(v) for v in (left, right))
    result = function(one, other)
    made = Number(result, kind, *_bounds(symbol, left, right)) if kind is int else Number(result, kind)
    made.seen = _seen(symbol, left, right) if kind is int else None
    made.shift = _shift(symbol, left, right) if kind is int else None
    return made


def distance(first: Scalar, second: Scalar) -> int | None:
    """`second − first` where it is known although the two are not."""
    if not (isinstance(first, Number) and isinstance(second, Number)):
        return None
    (one, before), (other, after) = first.shift or (first, 0), second.shift or (second, 0)
    return after - before if one is other else None


def _shift(symbol: str, left: Scalar, right: Scalar) -> tuple[Number, int] | None:
    if symbol == "+" and isinstance(right, Number):
        left, right = right, left
    if symbol not in ("+", "-") or not isinstance(left, Number) or not isinstance(right, int):
        return None
    base, before = left.shift or (left, 0)
    return base, before + (right if symbol == "+" else -right)


_BITWISE = ("&", "|", "^")


def _bounds(symbol: str, left: Scalar, right: Scalar) -> tuple[int | None, int | None]:
    a, b, c, d = low_of(left), high_of(left), low_of(right), high_of(right)
    if symbol == "+":
        return _add(a, c), _add(b, d)
    if symbol == "-":
        return _add(a, None if d is None else -d), _add(b, None if c is None else -c)
    if symbol == "%" and isinstance(right, int) and right > 0:
        return 0, right - 1
    if symbol == "//" and isinstance(right, int) and right > 0:
        return None if a is None else a // right, None if b is None else b // right
    if symbol == "*" and None not in (a, b, c, d):
        ends = [x * y for x in (a, b) for y in (c, d)]  # type: ignore[operator]
        return min(ends), max(ends)
    return None, None


def seen_of(value: Scalar) -> int | None:
    """The largest value of an integer on the inputs tried, where it comes from arguments; else its upper bound."""
    return value.seen if isinstance(value, Number) and value.seen is not None else high_of(value)


def _seen(symbol: str, left: Scalar, right: Scalar) -> int | None:
    if all(not isinstance(v, Number) or v.seen is None for v in (left, right)):
        return None
    a, b, low = seen_of(left), seen_of(right), low_of(right)
    if symbol in "+-":
        return _add(a, b if symbol == "+" else None if low is None else -low)
    if symbol == "*" and a is not None and b is not None and min(a, b) >= 0:
        return a * b
    return a // right if symbol == "//" and a is not None and isinstance(right, int) and right > 0 else None


def _never_seen(symbol: str, left: Scalar, right: Scalar) -> bool:
    """Whether a comparison was false on all inputs tried."""
    if symbol in ("<", "<="):
        return _never_seen({"<": ">", "<=": ">="}[symbol], right, left)
    most, least = seen_of(left), low_of(right)
    if symbol not in (">", ">=") or most is None or least is None:
        return False
    return most <= least if symbol == ">" else most < least


def _add(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def _comparison(symbol: str, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def compare(left: Number, right: Any) -> Any:
        if isinstance(right, torch.Tensor):
            return function(left.beside(right.dtype), right)
        if not is_scalar(right):
            return NotImplemented if symbol not in ("==", "!=") else symbol == "!="
        if isinstance(right, float) and left.tensor.dtype is torch.float32:
            return Number(function(left.tensor, _threshold(symbol, right)), bool, 0, 1)
        kind = max(left.kind, kind_of(right), int, key=_RANK.__getitem__)
        other = tensor_of(right, kind) if isinstance(right, Number | Size) else kind(right)
        held = Number(function(_cast(left, kind), other), bool, 0, 1)
        held.seen = 0 if _never_seen(symbol, left, right) else None
        return held

    return compare


def _threshold(symbol: str, value: float) -> float:
    """The float32 at which a float32 value decides as its double does against `value`.

    x > c holds just where x > c rounded down, and x >= c where x >= c rounded up; so for the other two.
    """
    nearest = np.float32(value)
    if math.isnan(value) or float(nearest) == value:
        return float(nearest)
    if symbol in ("==", "!="):
        return math.nan  # no float32 equals it
    down = symbol in (">", "<=")
    if (float(nearest) > value) == down:
        nearest = np.nextafter(nearest, np.float32(-np.inf if down else np.inf))
    return float(nearest)


def fits_float32(value: float) -> bool:
    """Whether a float32 holds `value` exactly."""
    return float(np.float32(value)) == value or math.isnan(value)


for _symbol, _name, _function in (
    ("+", "add", operator.add),
    ("-", "sub", operator.sub),
    ("*", "mul", operator.mul),
    ("/", "truediv", operator.truediv),
    ("//", "floordiv", operator.floordiv),
    ("%", "mod", operator.mod),
    ("**", "pow", operator.pow),
    ("&", "and", operator.and_),
    ("|", "or", operator.or_),
    ("^", "xor", operator.xor),
    ("<<", "lshift", operator.lshift),
    (">>", "rshift", operator.rshift),
):
    _forward, _backward = _arithmetic(_symbol, _function)
    setattr(Number, f"__{_name}__", _forward)
    setattr(Number, f"__r{_name}__", _backward)
for _symbol, _name, _function in (
    ("<", "lt", operator.lt),
    ("<=", "le", operator.le),
    (">", "gt", operator.gt),
    (">=", "ge", operator.ge),
    ("==", "eq", operator.eq),
    ("!=", "ne", operator.ne),
):
    setattr(Number, f"__{_name}__", _comparison(_symbol, _function))
