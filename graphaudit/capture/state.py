"""How a policy with its state as an argument is traced: numbers in the state are tensors of the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from graphaudit.capture.control_flow import Number, Refused, Session, as_result
from graphaudit.capture.control_flow.alternatives import Either
from graphaudit.capture.control_flow.arrays import Array, array_of
from graphaudit.graphs.selection import where


class StateTracer:
    """Takes and gives back the numbers of the state; with a session, masks the structures of the first calls."""

    numbers: tuple[type, ...] = (Number, Array, Either)

    def __init__(self, session: Session | None) -> None:
        self._session = session

    def number(self, tensor: torch.Tensor, kind: type) -> Number:
        """A Python number that is held by a 0-d tensor."""
        return Number(tensor, kind)

    def array(self, tensor: torch.Tensor) -> Array:
        """An array of NumPy's that is held by a tensor."""
        made: Array = array_of(tensor)
        return made

    def choice(self, index: torch.Tensor, choices: Sequence[Any]) -> Any:
        """The one of some Python values to which a 0-d tensor points. Raises Refused without a session."""
        if self._session is None:
            raise Refused("the state is one of several Python values")
        *others, chosen = choices
        for number, value in reversed(list(enumerate(others))):
            chosen = Either(Number(index == number, bool, 0, 1), value, chosen)
        return chosen

    def index(self, value: Any, index_of: Callable[[Any], int]) -> torch.Tensor:
        """The tensor that points to such a value; `index_of` gives its index."""
        if not isinstance(value, Either):
            return torch.full((), index_of(value))
        taken, other = (self.index(side, index_of) for side in (value.taken, value.other))
        return where(value.condition.tensor, taken, other)

    def tensor(self, value: Any) -> torch.Tensor | None:
        """The tensor that holds such a number or array; None for everything else."""
        if isinstance(value, Array):
            return value.tensor
        return value.wide if isinstance(value, Number) else None

    def select(self, phase: torch.Tensor, sides: Sequence[Callable[[], Any]]) -> Any:
        """What the side of index `phase` gives. Raises Refused where the sides give different structures."""
        if self._session is None:
            raise Refused("the state has another structure in the first calls")
        chosen: Any = None
        for index, side in reversed(list(enumerate(sides))):
            held = Number(phase == index, bool, 0, 1)
            with self._session.region(held):
                given = pytree.tree_map(as_result, side())
            chosen = given if chosen is None else _merged(held.tensor, given, chosen)
        return chosen


def _merged(held: torch.Tensor, one: Any, other: Any) -> Any:
    leaves, spec = pytree.tree_flatten(one)
    others, other_spec = pytree.tree_flatten(other)
    if spec != other_spec:
        raise Refused("the first calls give results of another structure than later ones")
    return pytree.tree_unflatten([_leaf(held, a, b) for a, b in zip(leaves, others)], spec)


def _leaf(held: torch.Tensor, one: Any, other: Any) -> Any:
    if not isinstance(one, torch.Tensor) and type(one) is type(other) and one == other:
        return one
    a, b = torch.as_tensor(one), torch.as_tensor(other)
    if a.shape != b.shape or a.dtype != b.dtype:
        raise Refused(
            f"the first calls give a tensor of shape {tuple(a.shape)}, later ones {tuple(b.shape)}",
            "branch-output-shapes-differ",
        )
    return where(held, a, b)
