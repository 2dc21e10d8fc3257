"""The schema of an operator, from the parameters of a Python function and the values that it is called with."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any

import torch

from graphaudit.errors import CustomOpError

_SCALARS = {torch.Tensor: "Tensor", bool: "bool", int: "SymInt", float: "float", str: "str"}
_LISTS = {bool: "bool[]", int: "SymInt[]", float: "float[]"}


def infer_schema(name: str, function: Callable[..., Any], example: Sequence[Any], result: Any, skip: int = 0) -> str:
    """`(Tensor x, float scale=0.7) -> Tensor`: names and defaults are those of `function`, without its first `skip`
    parameters; types are its annotations, or those of the example where it has none. Raises CustomOpError."""
    hints = _hints(function)
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise CustomOpError(
                f"{name} takes *{parameter.name}, and an operator has a fixed list of arguments",
                "Write every argument by name, in order.",
            )
    if len(example) > len(parameters):
        raise CustomOpError(f"an example of {name} has {len(example)} arguments, it takes {len(parameters)}")
    written = []
    for index, parameter in enumerate(parameters):
        has_default = parameter.default is not parameter.empty
        if index >= len(example) and not has_default:
            raise CustomOpError(f"an example of {name} lacks {parameter.name}", "Give every argument.")
        value = example[index] if index < len(example) else parameter.default
        kind = _SCALARS.get(hints.get(parameter.name)) or _type_of(value)  # type: ignore[arg-type]
        if kind is None:
            raise CustomOpError(
                f"{parameter.name} of {name} is of type {type(value).__name__}, which no operator takes",
                "Operators take tensors, numbers, strings and lists of numbers.",
            )
        written.append(f"{kind} {parameter.name}" + (f"={_written(parameter.default)}" if has_default else ""))
    return f"({', '.join(written)}) -> {_returns(name, result)}"


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):  # annotations that name what is imported for type checkers alone
        return {}


def _type_of(value: Any) -> str | None:
    if isinstance(value, torch.Tensor):
        return "Tensor"
    if isinstance(value, (list, tuple)) and value:
        return _LISTS.get(type(value[0]))
    return _SCALARS.get(type(value))


def _written(default: Any) -> str:
    if isinstance(default, (list, tuple)):
        return "[" + ", ".join(map(_written, default)) + "]"
    return f'"{default}"' if isinstance(default, str) else repr(default)


def _returns(name: str, result: Any) -> str:
    if isinstance(result, torch.Tensor):
        return "Tensor"
    if isinstance(result, (list, tuple)) and result and all(isinstance(r, torch.Tensor) for r in result):
        return f"({', '.join('Tensor' for _ in result)})" if len(result) > 1 else "Tensor"
    raise CustomOpError(
        f"{name} returns {type(result).__name__}", "An operator returns a tensor, or a tuple of tensors."
    )
