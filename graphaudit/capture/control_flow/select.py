"""The value after a branch: what each side left, chosen by the condition."""

from __future__ import annotations

import copy
import dataclasses
from enum import Enum
from typing import Any

import torch
from malt.operators.variables import Undefined, UndefinedReturnValue
from torch.distributions import Distribution

from graphaudit.capture.control_flow import entries, numbers
from graphaudit.capture.control_flow.alternatives import Either
from graphaudit.capture.control_flow.arrays import Array, array_of
from graphaudit.capture.control_flow.numbers import Number, is_scalar, kind_of
from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.control_flow.sizes import is_size
from graphaudit.capture.control_flow.texts import Text
from graphaudit.graphs.selection import where

_PLAIN = (bool, int, float, complex, str, bytes, Enum, type(None), torch.dtype, torch.device, slice)


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


def resolved(value: Any, facts: dict[int, bool]) -> Any:
    """What a variable holds where `facts` are known: a condition its truth, a number that a branch chose its side's."""
    while isinstance(value, Number):
        if id(value) in facts:
            return facts[id(value)]
        if value.origin is None or id(value.origin[0]) not in facts:
            return value
        condition, taken, other = value.origin
        value = taken if facts[id(condition)] else other
    return value


def select(condition: Number, taken: Any, other: Any) -> Any:
    """`taken` where `condition` holds, else `other`. Raises Refused where no single value of a graph can be either."""
    from graphaudit.capture.control_flow.carried import Carried, selected

    if taken is other or isinstance(other, Undefined | UndefinedReturnValue):
        return taken
    if isinstance(taken, Undefined | UndefinedReturnValue):
        return other  # reading it where it is not defined would raise in Python
    if isinstance(taken, Carried) or isinstance(other, Carried):
        return selected(condition, taken, other)
    if isinstance(taken, Either) or isinstance(other, Either) or (taken is None) != (other is None):
        return _either(condition, taken, other)
    if isinstance(taken, Text) or isinstance(other, Text):
        return Text()
    if is_scalar(taken) and is_scalar(other):
        if is_size(taken) and str(taken) == str(other):
            return taken
        return _numbers(condition, *(Number.of_size(v) if is_size(v) else v for v in (taken, other)))
    if isinstance(taken, Array) and isinstance(other, Array):
        return array_of(_tensors(condition, taken.tensor, other.tensor))
    if (isinstance(taken, torch.Tensor) or is_scalar(taken)) and (isinstance(other, torch.Tensor) or is_scalar(other)):
        return _tensors(condition, taken, other)
    if type(taken) is not type(other):
        return Either(condition, taken, other)
    if isinstance(taken, _PLAIN):
        return taken if taken == other else Either(condition, taken, other)
    return _containers(condition, taken, other)


def _either(condition: Number, taken: Any, other: Any) -> Any:
    """None or a value, on one of the sides or on both; and what else is one of two already."""
    sides = [_optional(condition, taken, True), _optional(condition, other, False)]
    if None in sides:
        return Either(condition, taken, other)
    (here, value), (there, otherwise) = sides  # type: ignore[misc]
    present = select(condition, here, there)
    value = select(condition, value, otherwise)
    return Either(present, value, None) if isinstance(present, Number) else value if present else None


def _optional(condition: Number, side: Any, holds: bool) -> tuple[Any, Any] | None:
    """(whether there is a value, the value) for None, a value, or one of the two."""
    if side is None:
        return False, Undefined("None")
    if not isinstance(side, Either):
        return (True, side) if not isinstance(side, str | bytes | Enum) else None
    if side.other is not None or isinstance(side.taken, Either | str | bytes | Enum):
        return None
    known = facts_of(condition if holds else negated(condition)).get(id(side.condition))
    return side.condition if known is None else known, side.taken


def _truths(condition: Number, taken: Any, other: Any) -> Number:
    """One of two booleans of Python's, at least one of which only the graph knows."""
    if isinstance(taken, bool):
        return _joined(condition if taken else negated(condition), other, either=taken)
    if isinstance(other, bool):
        return _joined(negated(condition) if other else condition, taken, either=other)
    return Number(where(condition.tensor, taken.tensor, other.tensor), bool, 0, 1)


def _joined(one: Number, other: Number, either: bool) -> Number:
    """`one or other`, or `one and other`; what is known of both is known with it: of `or` where it is false."""
    joined = torch.logical_or if either else torch.logical_and
    result = Number(joined(one.tensor, other.tensor), bool, 0, 1)
    if either:
        negated(result).facts = negated(one), negated(other)
    else:
        result.facts = one, other
    return result


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
    chosen = Number(
        result,
        kind,
        min(lows) if None not in lows and kind is not float else None,  # type: ignore[type-var]
        max(highs) if None not in highs and kind is not float else None,  # type: ignore[type-var]
    )
    if kinds[0] is kinds[1]:
        chosen.origin = condition, taken, other
    return chosen


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
    if taken.dim() != other.dim() or not _same_sizes(taken, other):
        shapes = f"{_shape(taken)} and {_shape(other)}"
        raise Refused(f"the two sides of a branch give tensors of shapes {shapes}", "branch-output-shapes-differ")
    if taken.dtype != other.dtype:
        raise Refused(
            f"the two sides of a branch give tensors of {taken.dtype} and {other.dtype}", "branch-types-differ"
        )
    return where(condition.tensor, taken, other)


def _beside(number: Any, tensor: torch.Tensor) -> torch.Tensor:
    value = number.beside(tensor.dtype) if isinstance(number, Number) else torch.scalar_tensor(number)
    if isinstance(number, Number) and value.dtype != tensor.dtype:
        raise _beside_differs(number.kind.__name__, tensor)
    if isinstance(number, float) and not tensor.is_floating_point():
        raise _beside_differs("float", tensor)
    return value.to(tensor.dtype)


def _beside_differs(kind: str, tensor: torch.Tensor) -> Refused:
    return Refused(f"one side of a branch gives a {kind}, the other a tensor of {tensor.dtype}", "branch-types-differ")


def _same_sizes(one: torch.Tensor, other: torch.Tensor) -> bool:
    return all(str(a) == str(b) for a, b in zip(one.shape, other.shape))  # symbols compare by name, without a guard


def _shape(tensor: torch.Tensor) -> str:
    return "(" + ", ".join(str(s) for s in tensor.shape) + ("," if tensor.dim() == 1 else "") + ")"


def _containers(condition: Number, taken: Any, other: Any) -> Any:
    if isinstance(taken, list | tuple):
        if isinstance(taken, list) and (len(taken) != len(other) or entries.is_open(taken) or entries.is_open(other)):
            return entries.merged(condition, taken, other)
        if len(taken) != len(other):
            sizes = f"{len(taken)} and {len(other)}"
            raise Refused(f"the two sides of a branch give tuples of {sizes} items", "list-length-differs")
        items = [select(condition, a, b) for a, b in zip(taken, other)]
        return type(taken)(*items) if hasattr(taken, "_fields") else type(taken)(items)
    if isinstance(taken, dict):
        if taken.keys() != other.keys():
            raise Refused("the two sides of a branch leave different keys in a dict", "branch-types-differ")
        return {key: select(condition, value, other[key]) for key, value in taken.items()}
    if dataclasses.is_dataclass(taken) or isinstance(taken, Distribution):
        merged = copy.copy(taken)
        for name in vars(taken).keys() & vars(other).keys():
            object.__setattr__(merged, name, select(condition, getattr(taken, name), getattr(other, name)))
        return merged
    raise Refused(f"the two sides of a branch give different objects, each {_name(taken)}", "branch-types-differ")


def _name(value: Any) -> str:
    if isinstance(value, Number):
        return f"a {value.kind.__name__}"
    return "None" if value is None else f"a {type(value).__name__}"
