"""What the user may put beside a policy, found by name: example inputs, more inputs, dynamic shapes, a reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from graphaudit.errors import PolicyError
from graphaudit.policy.policy import Policy
from graphaudit.policy.usercode import user_code
from graphaudit.text import one_line, suggestion


@dataclass(frozen=True)
class Names:
    """Names to look up instead of the defaults; None means the default, which may be absent."""

    example_inputs: str | None = None
    example_kwargs: str | None = None
    inputs: str | None = None
    dynamic_shapes: str | None = None
    reference: str | None = None

    def refuse_for(self, spec: str) -> None:
        """Raise PolicyError if any name is set: a data file has nothing beside it to name."""
        for field, name in asdict(self).items():
            if name is not None:
                raise PolicyError(
                    f"{one_line(spec)} brings its own inputs; {field} cannot be named for it",
                    "Wrap it in a Python file if it needs other inputs or a reference.",
                )


@dataclass(frozen=True)
class Companions:
    """What was found beside the policy."""

    example_args: tuple[Any, ...]
    example_kwargs: Mapping[str, Any]
    inputs: Callable[[int], Sequence[Any]] | None
    dynamic_shapes: Sequence[Any] | None
    reference: nn.Module | None

    def policy(self, name: str, module: nn.Module, file: Path | None) -> Policy:
        """The policy together with them."""
        return Policy(
            name=name,
            module=module,
            example_args=self.example_args,
            example_kwargs=self.example_kwargs,
            inputs=self.inputs,
            dynamic_shapes=self.dynamic_shapes,
            reference=self.reference,
            file=file,
        )


def companions_of(module: ModuleType, names: Names, folder: Path | None) -> Companions:
    """Read them from the module that holds the policy. Raises PolicyError with what to write instead."""
    where = Path(module.__file__).name if module.__file__ else module.__name__
    look = _Lookup(module, where, folder)
    kwargs = look.value("example_kwargs", names.example_kwargs)
    if kwargs is not None and not (isinstance(kwargs, Mapping) and all(isinstance(k, str) for k in kwargs)):
        raise PolicyError(
            f"{where}: example_kwargs is a {type(kwargs).__name__}",
            "Give a dict {parameter name: value} (or return one).",
        )
    return Companions(
        example_args=_example_args(look, names.example_inputs, has_kwargs=bool(kwargs)),
        example_kwargs=dict(kwargs or {}),
        inputs=_inputs(look, names.inputs),
        dynamic_shapes=look.value("dynamic_shapes", names.dynamic_shapes),
        reference=_reference(look, names.reference),
    )


@dataclass(frozen=True)
class _Lookup:
    module: ModuleType
    where: str
    folder: Path | None

    def find(self, default: str, name: str | None) -> Any:
        """The object of that name; None if it goes by its default name and is absent."""
        value = getattr(self.module, name or default, None)
        if value is None and name is not None:
            known = [n for n in vars(self.module) if not n.startswith("_")]
            raise PolicyError(f"{self.where} has no {name!r}", suggestion(name, known))
        return value

    def value(self, default: str, name: str | None) -> Any:
        """As `find`, but a function is called for its value."""
        found = self.find(default, name)
        if not callable(found) or isinstance(found, nn.Module):
            return found
        with user_code(f"{self.where}:{name or default}", folder=self.folder):
            return found()


def _example_args(look: _Lookup, name: str | None, *, has_kwargs: bool) -> tuple[Any, ...]:
    label = name or "example_inputs"
    if look.find("example_inputs", name) is None:
        if has_kwargs:
            return ()
        raise PolicyError(
            f"{look.where} has no example_inputs()",
            "Add `def example_inputs(): return (torch.zeros(1, 8),)` with your shapes, "
            "or name what you have with --example-inputs.",
        )
    value = look.value("example_inputs", name)
    return _arguments(value, f"{look.where}:{label}")


def _arguments(value: Any, what: str) -> tuple[Any, ...]:
    # A named tuple is one structured argument, not the list of arguments.
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return value
    if isinstance(value, torch.Tensor):
        raise PolicyError(f"{what} gives a single tensor, not a tuple of arguments", "Write `(x,)`, with the comma.")
    raise PolicyError(
        f"{what} gives a {type(value).__name__}, not a tuple of arguments",
        "Return one entry for each positional argument of forward: `(x,)` for one.",
    )


def _inputs(look: _Lookup, name: str | None) -> Callable[[int], Sequence[Any]] | None:
    function = look.find("inputs", name)
    if function is None:
        return None
    what = f"{look.where}:{name or 'inputs'}"
    if not callable(function):
        raise PolicyError(f"{what} is a {type(function).__name__}, not a function", "Write `def inputs(seed): …`.")

    def draw(seed: int) -> Sequence[Any]:
        with user_code(f"{what}({seed})", folder=look.folder):
            value = function(seed)
        return _arguments(value, f"{what}({seed})")

    draw(0)
    return draw


def _reference(look: _Lookup, name: str | None) -> nn.Module | None:
    value = look.value("reference", name)
    if value is None or isinstance(value, nn.Module):
        return value
    raise PolicyError(
        f"{look.where}:{name or 'reference'} gives a {type(value).__name__}, not an nn.Module",
        "Return the full pipeline that the deployed policy must match, as a module with the same arguments.",
    )
