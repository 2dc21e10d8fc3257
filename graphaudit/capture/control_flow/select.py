"""The value after a branch: what each side left, chosen by the condition."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
from malt.operators.variables import Undefined, UndefinedReturnValue
from torch.distributions import Distribution

from graphaudit.capture.control_flow import numbers
from graphaudit.capture.control_flow.numbers import Number, is_scalar, kind_of
from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.control_flow.sizes import is_size

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, slice)


def negated(condition: Number) -> Number:
    """`not condition`; twice gives the same object again."""
    if condition.opposite is None:
        other = Number(torch.logical_not(condition.tensor), bool, 0, 1)
        other.opposite, condition.opposite = condition, other
    return condition.opposite


def facts_of(held: Number) -> dict[int, bool]:
    """What is known where `held` is true: the truth of conditions by id."""
    known: dict[int, bool] = {}
    pending = [held]
    while pending:
        number = pending.pop()
        known[id(number)] = True
        if number.opposite is not None:
            known[id(number.opposite)] = False
        pending.extend(number.facts)
    return known


def select(condition: Number, taken: Any, other: Any) -> Any:
    """`taken` where `condition` holds, else `other`. Raises Refused where no single value of a graph can be either."""
    if taken is other or isinstance(other, Undefined | UndefinedReturnValue):
        return taken
    if isinstance(taken, Undefined | UndefinedReturnValue):
        return other  # reading it where it is not defined would raise in Python
    if is_scalar(taken) and is_scalar(other):
        if is_size(taken) and str(taken) == str(other):
            return taken
        return _numbers(condition, *(Number.of_size(v) if is_size(v) else v for v in (taken, other)))
    if isinstance(taken, torch.Tensor) or isinstance(other, torch.Tensor):
        return _tensors(condition, taken, other)
    if type(taken) is not type(other):
        raise Refused(f"one side of a branch gives {_name(taken)}, the other {_name(other)}")
    if isinstance(taken, _PLAIN):
        if taken == other:
            return taken
        raise Refused(f"the two sides of a branch give {taken!r} and {other!r}, which no tensor can be")
    return _containers(condition, taken, other)


def where(condition: torch.Tensor, taken: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """`torch.where`; of booleans in logic, because ONNX Runtime's Where has no kernel for them."""
    if taken.dtype is not torch.bool or other.dtype is not torch.bool:
        return torch.where(condition, taken, other)
    return torch.logical_or(torch.logical_and(condition, taken), torch.logical_and(torch.logical_not(condition), other))


def _truths(condition: Number, taken: Any, other: Any) -> Number:
    """One of two booleans of Python's, at least one of which only the graph knows."""
    if isinstance(taken, bool):
        held = condition.tensor if taken else torch.logical_not(condition.tensor)
        joined = torch.logical_or if taken else torch.logical_and
        return Number(joined(held, other.tensor), bool, 0, 1)
    if isinstance(other, bool):
        held = torch.logical_not(condition.tensor) if other else condition.tensor
        joined = torch.logical_or if other else torch.logical_and
        return Number(joined(held, taken.tensor), bool, 0, 1)
    return Number(where(condition.tensor, taken.tensor, other.tensor), bool, 0, 1)


def _numbers(condition: Number, taken: Any, other: Any) -> Any:
    kinds = kind_of(taken), kind_of(other)
    if not isinstance(taken, Number) and not isinstance(other, Number):
        if kinds[0] is kinds[1] and (taken == other or (taken != taken and other != other)):
            return taken
        if kinds == (bool, bool):
            return condition if taken else negated(condition)
    if kinds == (bool, bool):
        return _truths(condition, taken, other)
    kind = max(kinds, key=[bool, int, float].index)
    lows = numbers.low_of(taken), numbers.low_of(other)
    highs = numbers.high_of(taken), numbers.high_of(other)
    if kind is float and _narrow(taken) and _narrow(other):
        parts = [v.tensor if isinstance(v, Number) else torch.scalar_tensor(float(v)) for v in (taken, other)]
    else:
        parts = [numbers.tensor_of(v, kind) for v in (taken, other)]
    result = where(condition.tensor, *parts)
    return Number(
        result,
        kind,
        min(lows) if None not in lows and kind is not float else None,  # type: ignore[type-var]
        max(highs) if None not in highs and kind is not float else None,  # type: ignore[type-var]
    )


def _narrow(value: Any) -> bool:
    """Whether a number fits float32 as it is, so that no float64 is needed for its sake."""
    if isinstance(value, Number):
        return value.tensor.dtype is torch.float32
    return numbers.fits_float32(float(value))


def _tensors(condition: Number, taken: Any, other: Any) -> torch.Tensor:
    from graphaudit.capture.control_flow.session import current

    result = _chosen(condition, taken, other)
    current().aliases.merged(result, taken, other)
    return result


def _chosen(condition: Number, taken: Any, other: Any) -> torch.Tensor:
    taken, other = (Number.of_size(v) if is_size(v) else v for v in (taken, other))
    if is_scalar(taken) and isinstance(other, torch.Tensor):
        return where(condition.tensor, _beside(taken, other), other)
    if is_scalar(other) and isinstance(taken, torch.Tensor):
        return where(condition.tensor, taken, _beside(other, taken))
    if not isinstance(taken, torch.Tensor) or not isinstance(other, torch.Tensor):
        raise Refused(f"one side of a branch gives {_name(taken)}, the other {_name(other)}")
    if taken.dim() != other.dim() or not _same_sizes(taken, other):
        shapes = f"{_shape(taken)} and {_shape(other)}"
        raise Refused(f"the two sides of a branch give tensors of shapes {shapes}", "branch-output-shapes-differ")
    if taken.dtype != other.dtype:
        raise Refused(f"the two sides of a branch give tensors of {taken.dtype} and {other.dtype}")
    return where(condition.tensor, taken, other)


def _beside(number: Any, tensor: torch.Tensor) -> torch.Tensor:
    value = number.beside(tensor.dtype) if isinstance(number, Number) else torch.scalar_tensor(number)
    if isinstance(number, Number) and value.dtype != tensor.dtype:
        raise Refused(f"one side of a branch gives a {number.kind.__name__}, the other a tensor of {tensor.dtype}")
    if isinstance(number, float) and not tensor.is_floating_point():
        raise Refused(f"one side of a branch gives a float, the other a tensor of {tensor.dtype}")
    return value.to(tensor.dtype)


def _same_sizes(one: torch.Tensor, other: torch.Tensor) -> bool:
    return all(str(a) == str(b) for a, b in zip(one.shape, other.shape))  # symbols compare by name, without a guard


def _shape(tensor: torch.Tensor) -> str:
    return "(" + ", ".join(str(s) for s in tensor.shape) + ("," if tensor.dim() == 1 else "") + ")"


def _containers(condition: Number, taken: Any, other: Any) -> Any:
    if isinstance(taken, list | tuple):
        if len(taken) != len(other):
            raise Refused(f"the two sides of a branch leave {len(taken)} and {len(other)} items in a list")
        items = [select(condition, a, b) for a, b in zip(taken, other)]
        return type(taken)(*items) if hasattr(taken, "_fields") else type(taken)(items)
    if isinstance(taken, dict):
        if taken.keys() != other.keys():
            raise Refused("the two sides of a branch leave different keys in a dict")
        return {key: select(condition, value, other[key]) for key, value in taken.items()}
    if dataclasses.is_dataclass(taken) or isinstance(taken, Distribution):
        merged = copy.copy(taken)
        for name in vars(taken).keys() & vars(other).keys():
            object.__setattr__(merged, name, select(condition, getattr(taken, name), getattr(other, name)))
        return merged
    raise Refused(f"the two sides of a branch give different objects of type {_name(taken)}")


def _name(value: Any) -> str:
    if isinstance(value, Number):
        return f"a {value.kind.__name__}"
    return "None" if value is None else f"a {type(value).__name__}"
