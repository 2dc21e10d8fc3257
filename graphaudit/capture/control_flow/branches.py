"""`if`, conditional expressions, `and`, `or`, `not`: Python where Python decides, masks where tensors do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from graphaudit.capture.control_flow.alternatives import Either, settled
from graphaudit.capture.control_flow.arrays import Array, tensor_of
from graphaudit.capture.control_flow.entries import is_filled, is_open
from graphaudit.capture.control_flow.numbers import Number, as_bool
from graphaudit.capture.control_flow.select import facts_of, negated, select
from graphaudit.capture.control_flow.session import current
from graphaudit.capture.control_flow.sizes import Size, decided, is_size
from graphaudit.capture.control_flow.world import World, closures


def decides_on_data(value: Any) -> bool:
    """Whether the truth of `value` is known to the graph only: it is a tensor's, or other at other sizes."""
    if is_size(value):
        return decided(_truth_of_size(value)) is None
    return isinstance(value, torch.Tensor | Number | Array) or isinstance(settled(value), Either) or is_open(value)


def condition(value: Any) -> Any:
    """`bool(value)`: a Number where a tensor decides, else a bool. Raises Refused for more than one element."""
    value = settled(value)
    if isinstance(value, Either):
        return select(value.condition, condition(value.taken), condition(value.other))
    if is_open(value):
        value = is_filled(value)
    if isinstance(value, torch.Tensor | Array):
        value = Number.of(tensor_of(value))
    if is_size(value):
        truth = _truth_of_size(value)
        known = decided(truth)
        return Number.of_size(truth) if known is None else known
    return as_bool(value) if isinstance(value, Number) else bool(value)


def _truth_of_size(size: Size) -> torch.SymBool:
    return size if isinstance(size, torch.SymBool) else size != 0  # type: ignore[return-value]


def predicate(
    test: Number, taken: Callable[[], Any], other: Callable[[], Any], *functions: Callable[..., Any] | None
) -> Any:
    """Run both sides from the same state, and let state and result be selected. `functions` share the variables."""
    session = current()
    before = World([*closures(taken, other, *functions), *session.roots()])
    results, worlds = [], []
    for held, side in ((test, taken), (negated(test), other)):
        before.assume(facts_of(held))
        with session.region(held):
            results.append(side())
        worlds.append(before.now())
        before.restore()
    World.merge(test, *worlds)
    return select(test, *results)


def if_stmt(
    test: Any,
    body: Callable[[], None],
    orelse: Callable[[], None],
    get_state: Callable[[], Any],
    set_state: Callable[[Any], None],
    names: tuple[str, ...],
    nouts: int,
) -> None:
    """`if test: body else: orelse`."""
    del names, nouts
    if decides_on_data(test):
        predicate(condition(test), body, orelse, get_state, set_state)
    elif condition(test):
        body()
    else:
        orelse()


def if_exp(test: Any, taken: Callable[[], Any], other: Callable[[], Any], text: str) -> Any:
    """`taken if test else other`."""
    del text
    if decides_on_data(test):
        return predicate(condition(test), taken, other)
    return taken() if condition(test) else other()


def and_(first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    """`first and second`: the second is only the policy's where the first is true."""
    left = first()
    if not decides_on_data(left):
        return second() if condition(left) else left
    held = condition(left)
    right = only_where(held, second)
    if not (_is_truth(left) and _is_truth(right)):
        return select(held, right, left)
    return both(held, right)


def or_(first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    """`first or second`: the second is only the policy's where the first is false."""
    left = first()
    if not decides_on_data(left):
        return left if condition(left) else second()
    held = condition(left)
    right = only_where(negated(held), second)
    if not (_is_truth(left) and _is_truth(right)):
        return select(held, left, right)
    neither = both(negated(held), not_(right))
    return not_(neither)


def not_(value: Any) -> Any:
    """`not value`."""
    return negated(condition(value)) if decides_on_data(value) else not condition(value)


class _Operand:
    """Keeps the value of an operand out of the variables that are selected."""

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute = compute
        self.value: Any = None

    def run(self) -> None:
        self.value = self._compute()


def only_where(held: Number, side: Callable[[], Any]) -> Any:
    """The value of an operand that Python evaluates only where `held` is true."""
    operand = _Operand(side)
    predicate(held, operand.run, lambda: None, side)
    return operand.value


def _is_truth(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.dtype is torch.bool
    return isinstance(value, bool | torch.SymBool) or (isinstance(value, Number) and value.kind is bool)


def both(held: Number, right: Any) -> Any:
    """`held and right`, with what is known where it is true."""
    if not decides_on_data(right):
        return held if condition(right) else False
    also = condition(right)
    result = Number(torch.logical_and(held.tensor, also.tensor), bool, 0, 1)
    result.facts = (held, also)
    return result
