"""Loops over a dimension that varies. Passes that do not depend on one another run once, for all of them (rows.py).

    for row in x: out.append(f(row))     out holds f of all rows, in one piece
    for i in range(n): y[i] = f(x[i])    y[:n] = f of all rows
    total = total + f(row)               total = total + f of all rows, summed
    best = max(best, f(row))             likewise the greatest or least

Whatever else a pass hands to the next one makes the passes depend on one another: `Dependent`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import CellType
from typing import Any

import torch
from malt.operators.variables import Undefined, UndefinedReturnValue
from torch import Tensor
from torch.utils import _pytree as pytree

from graphaudit.capture.control_flow.carried import Carried, Dependent, Reduced, reduced_extreme
from graphaudit.capture.control_flow.grown import OF_GROWN, Appended
from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.control_flow.rows import LOOP, METADATA, Row
from graphaudit.capture.control_flow.session import current
from graphaudit.capture.control_flow.sizes import is_size
from graphaudit.capture.control_flow.world import World, closures


class Varying:
    """What a loop runs over: `count` passes, of which `at(index)` is the item."""

    def __init__(self, count: Any, at: Callable[[Number], Any]) -> None:
        self.count = count
        self.at = at

    @classmethod
    def of(cls, iterated: Any) -> Varying | None:
        """The passes over a tensor whose first dimension varies, or over what was appended on such passes."""
        if isinstance(iterated, Varying):
            return iterated
        if isinstance(iterated, Tensor) and iterated.dim() and is_size(iterated.shape[0]):
            return cls(iterated.shape[0], lambda index: item_of(iterated, index))
        if isinstance(iterated, list) and len(iterated) == 1 and isinstance(iterated[0], Appended):
            return cls.of(iterated[0].tensor())
        return None

    @classmethod
    def range(cls, *arguments: Any) -> Any:
        """`range(count)` of a size."""
        if len(arguments) > 1 and (arguments[0] != 0 or arguments[2:] not in ((), (1,))):
            # torch takes a count such as n - 1 for more than one, and would fix it
            return importlib.import_module("graphaudit.capture.control_flow.loops").DataRange(*arguments)
        return cls(arguments[min(1, len(arguments) - 1)], lambda index: index)

    @classmethod
    def zip(cls, *parts: Any) -> Varying:
        """`zip(…)` of tensors that have one size that varies."""
        sources = [cls.of(part) for part in parts]
        if any(s is None or str(s.count) != str(sources[0].count) for s in sources):  # type: ignore[union-attr]
            raise Refused("zip() of a tensor whose size varies with what has another size", LOOP)
        return cls(sources[0].count, lambda index: tuple(s.at(index) for s in sources))  # type: ignore[union-attr]

    @classmethod
    def enumerate(cls, part: Any, start: Any = 0) -> Varying:
        """`enumerate(…)` of a tensor whose size varies."""
        source = cls.zip(part)
        return cls(source.count, lambda i: (i if type(start) is int and not start else start + i, source.at(i)[0]))

    @classmethod
    def reversed(cls, part: Any) -> Varying:
        """`reversed(…)` of a tensor whose size varies."""
        source = cls.zip(part)
        return cls(source.count, lambda index: source.at(Number.of_size(source.count - 1) - index)[0])


class AllAtOnce:
    """One run of a loop's body for all passes. `index` is the number of the pass."""

    def __init__(self, count: Any) -> None:
        self.count = count
        self.index = Number(Row(torch.arange(count)), int, 0)
        self.written: set[int] = set()  # storages to which every pass writes its own place, by identity
        self.read: set[int] = set()  # storages that are read otherwise

    def note(self, function: Any, written: Tensor | None, arguments: Any) -> None:
        """What a function of torch's reads and writes."""
        if isinstance(written, Row):
            self.written.add(_storage(written))
        if function not in METADATA and function is not Tensor.untyped_storage:
            tensors = (t for t in pytree.tree_leaves(arguments) if isinstance(t, Tensor) and not isinstance(t, Row))
            self.read.update(map(_storage, tensors))

    def owns(self, target: Any, key: Any) -> bool:
        """Whether `target[key]` is the place that belongs to the pass: `y[i]`, `y[i, …]`, `y[:, i]`."""
        items = key if isinstance(key, tuple) else (key,)
        if not isinstance(target, Tensor) or isinstance(target, Row) or len(items) > target.dim():
            return False
        return sum(i is self.index for i in items) == 1 and all(isinstance(i, int | slice | Number) for i in items)

    def item(self, target: Tensor, key: Any) -> Any:
        """What belongs to the pass, as a view."""
        items = key if isinstance(key, tuple) else (key,)
        dim = next(d for d, item in enumerate(items) if item is self.index)
        with torch._C.DisableTorchFunction():
            rows = target.movedim(dim, 0) if dim else target
            mine = Row(rows if str(rows.shape[0]) == str(self.count) else rows.narrow(0, 0, self.count))
        rest = (*items[:dim], *items[dim + 1 :])
        return item_of(mine, rest) if rest else mine

    def write(self, target: Tensor, key: Any, value: Any) -> None:
        """`target[i] = value` or `target[i, …] = value`, where the pass is the path taken."""
        place = self.item(target, key)
        if isinstance(value, Number):
            value = value.beside(target.dtype)
        self.written.add(_storage(target))
        place.copy_(value) if isinstance(value, Tensor) else place.fill_(value)


def item_of(tensor: Tensor, index: Any) -> Any:
    """`tensor[index]`."""
    from graphaudit.capture.control_flow.tables import get_item

    return get_item(tensor, index)


_OF_VARYING: dict[Any, Callable[..., Any]] = {
    range: Varying.range,
    enumerate: Varying.enumerate,
    zip: Varying.zip,
    reversed: Varying.reversed,
}


_EXTREMES = (max, min)  # torch.export puts others in their place while it traces


def twin_of(function: Any, args: tuple[Any, ...]) -> Callable[..., Any] | None:
    """What runs in place of a function that is called with a size, a tensor or a list that varies."""
    if function in _EXTREMES and any(isinstance(v, Carried) for v in args):
        return lambda *values: reduced_extreme(function is _EXTREMES[0], values)
    if function in _OF_VARYING and any(is_size(v) or Varying.of(v) is not None for v in args):
        return _OF_VARYING[function]
    grown = args[0] if args and isinstance(args[0], list | tuple) else ()
    return OF_GROWN.get(function) if any(isinstance(v, Appended) for v in grown) else None


def listed(items: Any, value: Callable[[Any], Any], as_list: bool) -> Any:
    """`[value(item) for item in items]`, or a generator of it; over a dimension that varies a list of all passes."""
    source = Varying.of(items)
    if source is None:
        return [value(item) for item in items] if as_list else (value(item) for item in items)
    grown: list[Any] = []
    try:
        all_at_once(source, lambda item: grown.append(value(item)), lambda: None, lambda _: None)
    except Dependent:
        raise Refused("passes of this comprehension depend on one another, and a dimension that varies", LOOP) from None
    return grown


def all_at_once(
    source: Varying, body: Callable[[Any], None], get_state: Callable[[], Any], set_state: Callable[[Any], None]
) -> None:
    """Run the body once for all passes. Raises Dependent, with everything as it was, where passes depend on others."""
    session = current()
    if session.each is not None:
        raise Dependent
    cells = closures(set_state)
    world = World([*closures(body, get_state), *cells, *session.roots()])
    writes = session.writes
    try:
        # The converters leave out variables that only the body uses, or that a function in it changes.
        further = _run(source, body, cells, world)
        if further and session.writes == writes:
            _run(source, body, [*cells, *further], world)
        elif further:
            raise Dependent
    except Dependent:
        world.restore()
        if session.writes != writes:
            raise Refused("passes of this loop write to tensors, and depend on one another", LOOP) from None
        raise
    finally:
        session.each = None


def _run(source: Varying, body: Callable[[Any], None], cells: Sequence[Any], world: World) -> list[Any]:
    """One run, after which lists and `cells` are as after all passes; or, with nothing done, what else it changes."""
    current().each = each = AllAtOnce(source.count)
    before = {id(cell): _content(cell) for cell in cells}
    carried = {key: Carried(v) for key, v in before.items() if not isinstance(v, _NOTHING)}
    for cell in cells:
        if id(cell) in carried:
            cell.cell_contents = carried[id(cell)]
    body(source.at(each.index))
    grown, further = [], []
    for container, was, held in world.changed():
        if isinstance(container, CellType):
            further += [container] if id(container) not in before and not isinstance(was, _NOTHING) else []
        elif isinstance(container, list) and all(a is b for a, b in zip(was, held[: len(was)], strict=True)):
            grown.append((container, held[len(was) :]))
        else:
            raise Dependent
    if each.written & each.read:
        raise Dependent
    after = [_after(carried.get(id(cell)), _content(cell), before[id(cell)], each.count) for cell in cells]
    current().each = None
    world.restore()
    if further:
        return further
    for container, items in grown:
        container.append(Appended(items, each.count))
    for cell, value in zip(cells, after, strict=True):
        if not isinstance(value, _NOTHING):
            cell.cell_contents = value
    return []


_NOTHING = (Undefined, UndefinedReturnValue)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return Undefined("a variable")


def _after(begun: Any, value: Any, before: Any, count: Any) -> Any:
    if value is begun or isinstance(value, _NOTHING):
        return before
    if isinstance(value, Reduced):
        if value.carried is not begun:
            raise Dependent
        return value.over(count)
    return _last(value)


def _last(value: Any) -> Any:
    """A value of the body as the last pass left it."""
    if isinstance(value, Carried):
        raise Dependent
    if isinstance(value, Row):
        return value.rows[-1]
    if isinstance(value, Number) and isinstance(value.tensor, Row):
        return Number(value.tensor.rows[-1], value.kind, value.low, value.high)
    if isinstance(value, list | tuple):
        items = [_last(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: _last(item) for key, item in value.items()}
    return value


def _storage(tensor: Tensor) -> int:
    identity: int = tensor.untyped_storage()._cdata
    return identity
