"""What one pass of a loop hands to the next: variables, attributes and entries, as tensors of one shape and dtype."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from malt.operators.variables import Undefined, UndefinedReturnValue
from torch.utils import _pytree as pytree

from graphaudit.capture.control_flow import numbers
from graphaudit.capture.control_flow.numbers import Number, is_scalar, kind_of
from graphaudit.capture.control_flow.refusal import Refused

_SCALARS = [bool, int, float]


@dataclass
class Form:
    """The form of one carried tensor. `kind` is that of the Python number it stands for, None for a tensor."""

    kind: type | None
    dtype: torch.dtype
    shape: tuple[Any, ...] = ()

    @classmethod
    def of(cls, value: Any) -> Form:
        """The form of a tensor or a number as it is."""
        if isinstance(value, torch.Tensor):
            return cls(None, value.dtype, tuple(value.shape))
        kind = kind_of(value)
        if kind is float:
            return cls(float, torch.float32 if _is_narrow(value) else torch.float64)
        return cls(kind, torch.bool if kind is bool else torch.int64)

    def joined(self, other: Form) -> Form:
        """The form that values of both forms have. Raises Refused where there is none."""
        if self.kind is None and other.kind is None:
            if self.dtype != other.dtype:
                raise Refused(f"a tensor of this loop turns from {self.dtype} to {other.dtype}")
            if [str(s) for s in self.shape] != [str(s) for s in other.shape]:
                raise Refused(f"a tensor of this loop changes its shape from {_sizes(self)} to {_sizes(other)}")
            return self
        if self.kind is None or other.kind is None:
            tensor, number = (self, other) if self.kind is None else (other, self)
            if number.kind is float and not tensor.dtype.is_floating_point:
                raise Refused(f"a variable of this loop is a float on one pass and a tensor of {tensor.dtype} later")
            return tensor
        kind = max(self.kind, other.kind, key=_SCALARS.index)
        if kind is float:
            narrow = self.dtype == other.dtype == torch.float32
            return Form(float, torch.float32 if narrow else torch.float64)
        return Form(kind, torch.bool if kind is bool else torch.int64)

    def tensor(self, value: Any) -> torch.Tensor:
        """`value` in this form; zeros where it is not defined yet: reading it would raise in Python."""
        if isinstance(value, Undefined | UndefinedReturnValue):
            return torch.zeros(self.shape, dtype=self.dtype)
        if isinstance(value, torch.Tensor):
            return value
        if isinstance(value, Number):
            tensor = value.tensor.to(self.dtype)
            return tensor.expand(self.shape) if self.shape else tensor
        return torch.full(self.shape, value, dtype=self.dtype)

    def value(self, tensor: torch.Tensor) -> Any:
        """What the policy's code sees: the tensor, or the number that it stands for."""
        if self.kind is None:
            return tensor
        return Number(tensor, bool, 0, 1) if self.kind is bool else Number(tensor, self.kind)


class Variable:
    """What one slot hands on: a structure of leaves; those that are neither number nor tensor never change."""

    def __init__(self, first: Any, later: Any) -> None:
        self.forms: list[Form | None] = []
        if _is_undefined(first):
            leaves, self._spec = pytree.tree_flatten(later)
            self._first: Sequence[Any] = [first if _is_value(leaf) else leaf for leaf in leaves]
        else:
            self._first, self._spec = pytree.tree_flatten(first)
        self.widen(later)

    def widen(self, later: Any) -> bool:
        """Take the form of what a pass leaves into account. Returns whether that changed anything."""
        old = list(self.forms)
        leaves = self._leaves(later)
        known = self.forms or [Form.of(v) if _is_value(v) else None for v in self._first]
        self.forms = [self._join(*each) for each in zip(self._first, known, leaves)]
        return self.forms != old

    def first(self) -> list[torch.Tensor]:
        """The tensors that the first pass starts from."""
        return [form.tensor(leaf) for form, leaf in zip(self.forms, self._first) if form is not None]

    def outputs(self, later: Any) -> list[torch.Tensor]:
        """The tensors that a pass leaves."""
        return [form.tensor(leaf) for form, leaf in zip(self.forms, self._leaves(later)) if form is not None]

    def build(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The value of the slot that holds `tensors`."""
        given = iter(tensors)
        leaves = [leaf if form is None else form.value(next(given)) for form, leaf in zip(self.forms, self._first)]
        return pytree.tree_unflatten(leaves, self._spec)

    @property
    def count(self) -> int:
        """How many tensors it takes."""
        return sum(form is not None for form in self.forms)

    def _leaves(self, later: Any) -> list[Any]:
        if _is_undefined(later):
            return list(self._first)
        leaves, spec = pytree.tree_flatten(later)
        if spec != self._spec:
            raise Refused("what this loop leaves in a variable has another structure after each pass")
        return leaves

    @staticmethod
    def _join(first: Any, known: Form | None, later: Any) -> Form | None:
        if not _is_value(later):
            if later is first or (type(later) is type(first) and not _is_undefined(first) and later == first):
                return known
            raise _unlike(first, later)
        if known is None and not _is_undefined(first):
            raise _unlike(first, later)
        form = Form.of(later)
        return form if known is None else known.joined(form)


def _unlike(first: Any, later: Any) -> Refused:
    changes = f"this loop changes {_name(first)} to {_name(later)}"
    return Refused(f"{changes}, and only numbers and tensors can change")


def _is_value(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or is_scalar(value)


def _is_undefined(value: Any) -> bool:
    return isinstance(value, Undefined | UndefinedReturnValue)


def _is_narrow(value: Any) -> bool:
    if isinstance(value, Number):
        return value.tensor.dtype is torch.float32
    return numbers.fits_float32(float(value))


def _sizes(form: Form) -> str:
    return "(" + ", ".join(map(str, form.shape)) + ("," if len(form.shape) == 1 else "") + ")"


def _name(value: Any) -> str:
    return "None" if value is None else repr(value) if isinstance(value, str) else f"a {type(value).__name__}"
