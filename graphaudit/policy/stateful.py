"""Finds what a policy keeps between calls, by running it, and makes the policy that takes it as an argument.

Before the first calls the state may have another structure than later: None, an empty list, a number in place of a
tensor. Where the policy does the same when it starts from zeros in the final structure, it is started from those.
Otherwise the structures of the first calls are kept, with a counter of calls as part of the state. So are those that
come round again and again: a list of planned actions that is used up and then filled anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from graphaudit.findings import Place
from graphaudit.interface import resize
from graphaudit.policy.policy import Policy
from graphaudit.policy.rows import row_axes
from graphaudit.policy.seeds import preserved_generators
from graphaudit.policy.state import CHOSEN, Layout, Leaf
from graphaudit.policy.stepping import KEYWORD, PHASE, Part, Stepped, number_dtype
from graphaudit.policy.write_only import only_written

_FEWEST_CALLS, _MOST_CALLS = 6, 40
_MOST_LAYOUTS = 9
_MOST_CHOICES = 24
_TRIALS = 3

Calls = Sequence[Sequence[Any]]
Places = Sequence[tuple[str, Place | None]]
Chosen = Mapping[str, tuple[Any, ...]]


class StateRefused(Exception):
    """State that no fixed set of tensors can hold. `root` is the attribute."""

    def __init__(self, root: str, reason: str) -> None:
        super().__init__(reason)
        self.root = root
        self.reason = reason
        self.remedy = (
            f"Keep what later calls read and no more, in the same structure after each call: the last k entries, say "
            f"(`self.{root} = self.{root}[-k:]`, `collections.deque(maxlen=k)`), or a tensor with an index into it."
        )


@dataclass(frozen=True)
class Found:
    """The state of a policy: which parts there are, in which structures they stand, and which follows the last one."""

    parts: list[Part]
    layouts: list[Layout]
    back: int = -1
    names: tuple[Mapping[str, str], ...] = ()  # for each layout: leaf → the part that holds it, where it is not its own


def stepped(
    policy: Policy,
    calls: Calls = (),
    without: frozenset[str] = frozenset(),
    places: Places = (),
    also: Chosen = MappingProxyType({}),
) -> Policy | None:
    """The policy with its state as an argument and a result; None where a call leaves nothing behind.

    `calls` are further arguments to try beside the example, `without` are paths of state to leave alone, `places` are
    attributes and buffers with lines that write to them, `also` paths of state that may change although no call here
    changes it, with the texts or members of an enum that it may be. Raises StateRefused.
    """
    alike = [args for args in calls if _sizes(args) == _sizes(policy.example_args)]  # an episode has one batch size
    found = _find(policy, [policy.example_args, *_varied(policy), *alike], without, also)
    if found is None or not found.parts:
        return None
    module = Stepped(policy.working.module, found.parts, found.layouts, found.back, found.names)
    rows = row_axes(policy, module)
    kwargs = {**policy.example_kwargs, KEYWORD: tuple(part.initial for part in found.parts)}
    made = replace(policy, module=module, example_kwargs=kwargs, exported=None, inputs=policy.inputs)
    paths = [(part.path, part.initial, part.shape) for part in found.parts]
    interface = policy.interface.with_state(paths, KEYWORD)
    state = tuple(replace(s, places=_places(s.path, places), rows=rows.get(s.path)) for s in interface.state)
    made.__dict__["interface"] = replace(interface, state=state)
    return made


def unlike_reset(policy: Policy) -> list[str]:
    """Paths of the state to which the module's own `reset()` gives other values than it was handed over with.

    `policy` is the stepped one. A `reset` that takes arguments says nothing.
    """
    module = policy.working.module
    assert isinstance(module, Stepped)
    reset = getattr(module.policy, "reset", None)
    if not callable(reset):
        return []
    with preserved_generators(), policy.working.fresh():
        try:
            reset()
        except Exception:  # the user's code
            return []
        leaves = Layout.of(module.policy).leaves()
        after = {p: _as_tensor(part, leaves[p].value) for p, part in module.parts.items() if p in leaves}
    first = {path: part.initial for path, part in module.parts.items()}
    return [
        p for p, v in after.items() if v.shape != first[p].shape or not bool((v.to(first[p].dtype) == first[p]).all())
    ]


def _as_tensor(part: Part, value: Any) -> torch.Tensor:
    return torch.as_tensor(part.choices.index(value) if value in part.choices else _cloned(value))


def _places(path: str, known: Places) -> tuple[Place, ...]:
    """The lines that write to what stands at `path`: to the attribute itself, or to one that holds it."""
    found = [p for held, p in known if p is not None and (path == held or path.startswith((f"{held}[", f"{held}.")))]
    return tuple(dict.fromkeys(found))


def _find(
    policy: Policy,
    calls: Calls,
    without: frozenset[str],
    also: Chosen,
    logs: frozenset[str] = frozenset(),
) -> Found | None:
    """What is kept, but for leaves at the paths `without` and for what stands under the roots `logs`."""
    readings = _readings(policy, calls, logs)
    changed = {path for path in _changed(readings) if path not in without} | also.keys()
    changed -= _texts_without_end(readings)
    if not changed:
        return None
    roots = set().union(*(reading.roots_of(changed) for reading, _ in readings))
    layouts = [reading.only(roots) for reading, _ in readings]
    shapes = [layout.shape() for layout in layouts]
    settled = _settled(shapes)
    if settled is None:
        unsettled = [r for r in sorted(roots) if any(s.get(r) != shapes[-1].get(r) for s in shapes[-3:])]
        if only_written(policy, (layouts[-1].nodes[r][0] for r in unsettled if r in layouts[-1].nodes), calls):
            return _find(policy, calls, without, also, logs.union(unsettled))
        root = unsettled[0]
        raise StateRefused(root, f"{root} has another structure after each of {len(shapes) - 1} calls")
    first, period = settled
    choices = _choices(readings, also)
    if period > 1:
        return replace(_with_phases(policy, layouts[: first + period], changed, choices), back=first)
    steady = layouts[first]
    firsts = layouts[0].leaves()
    parts = [_part(leaf, firsts.get(path), choices) for path, leaf in steady.leaves().items() if path in changed]
    found = Found(_with_dimensions(policy, parts, first + 1), [steady])
    if first == 0 or _starts_alike(policy, found, calls):
        return found
    if first >= _MOST_LAYOUTS:
        root = next(r for r in sorted(roots) if shapes[first].get(r) != shapes[first - 1].get(r))
        raise StateRefused(root, f"{root} has another structure in each of the first {first} calls")
    return _with_phases(policy, layouts[: first + 1], changed, choices)


def _settled(shapes: Sequence[Any]) -> tuple[int, int] | None:
    """(first, period): from `first` on the structures repeat themselves after `period` calls, as far as two rounds
    show; None where they do not."""
    for period in range(1, max(2, len(shapes) // 2)):
        first = len(shapes) - period
        while first > 0 and shapes[first - 1] == shapes[first - 1 + period]:
            first -= 1
        if len(shapes) - first > 2 * period:
            return first, period
    return None


def _readings(policy: Policy, calls: Calls, logs: frozenset[str]) -> list[tuple[Layout, dict[str, Any]]]:
    """The layout before each of a number of calls and after the last, with copies of the values."""
    readings: list[tuple[Layout, dict[str, Any]]] = []
    with preserved_generators(), policy.working.fresh() as module:
        readings.append(_read(module, logs))
        count, stable = 0, 0
        while count < _MOST_CALLS and (count < max(_FEWEST_CALLS, len(calls)) or stable < 3):
            args = calls[count % len(calls)]
            count += 1
            try:
                module(*_cloned(args), **_cloned(dict(policy.example_kwargs)))
            except Exception:  # the user's forward, on inputs that are not the example
                if count == 1:
                    raise
                continue
            readings.append(_read(module, logs))
            stable = stable + 1 if readings[-1][0].shape() == readings[-2][0].shape() else 0
    return readings


def _read(module: nn.Module, logs: frozenset[str]) -> tuple[Layout, dict[str, Any]]:
    layout = Layout.of(module)
    layout = layout.only(layout.nodes.keys() - logs)
    return layout, {p: _cloned(leaf.value) for p, leaf in layout.leaves().items()}


def _changed(readings: list[tuple[Layout, dict[str, Any]]]) -> set[str]:
    """Paths of the leaves that were not always there, or not always the same."""
    first = readings[0][1]
    changed: set[str] = set()
    for _, values in readings[1:]:
        changed |= first.keys() ^ values.keys()
        changed |= {p for p in first.keys() & values.keys() if not _is_same(first[p], values[p])}
    return changed


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        one, other = torch.as_tensor(one), torch.as_tensor(other)
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if one.is_meta or other.is_meta:  # without values
            return True
        return bool(torch.equal(one, other) or torch.equal(one.isnan() | (one == other), torch.ones_like(one).bool()))
    return type(one) is type(other) and (one == other or (one != one and other != other))


def _texts_without_end(readings: list[tuple[Layout, dict[str, Any]]]) -> set[str]:
    """Paths of texts that are another after each call, a log in most cases: no state, and episodes show where it is."""
    first, *after = (values for _, values in readings)
    texts = (path for path, value in first.items() if isinstance(value, str | bytes))
    return {path for path in texts if len({values.get(path) for values in (first, *after)}) == len(readings)}


def _choices(readings: list[tuple[Layout, dict[str, Any]]], also: Chosen) -> Chosen:
    """For each path the texts and members of an enum that were seen there, or may be. Raises StateRefused."""
    found: dict[str, dict[Any, None]] = {path: dict.fromkeys(values) for path, values in also.items()}
    for _, values in readings:
        for path, value in values.items():
            if isinstance(value, CHOSEN):
                found.setdefault(path, {})[value] = None
    for path, known in found.items():
        if len(known) > _MOST_CHOICES:
            raise StateRefused(path, f"{path} is one of more than {_MOST_CHOICES} texts")
    return {path: tuple(known) for path, known in found.items()}


def _part(leaf: Leaf, first: Leaf | None, choices: Chosen) -> Part:
    """The part with its first value: that of the module as it was handed over, or zero."""
    kind = leaf.kind
    if isinstance(leaf.value, CHOSEN):
        known = choices[leaf.path]
        index = known.index(first.value) if first is not None and first.value in known else 0
        return Part(leaf.path, kind, torch.full((), index), (), known)
    value: Any = 0 if first is None or isinstance(first.value, CHOSEN) else first.value
    if kind is not None and kind is not np.ndarray:
        start = value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
        start = 0 if isinstance(start, torch.Tensor) else start
        return Part(leaf.path, kind, torch.full((), kind(start), dtype=number_dtype(kind)), ())
    steady = torch.as_tensor(leaf.value)
    shape = steady.shape
    given = torch.as_tensor(value).to(steady.dtype)
    try:
        initial = given.expand(shape).clone()
    except RuntimeError:  # of another shape: zeros are tried
        initial = torch.zeros(shape, dtype=steady.dtype)
    return Part(leaf.path, kind, initial.detach(), tuple(shape))


def _with_dimensions(policy: Policy, parts: list[Part], calls: int) -> list[Part]:
    """The parts with the names of their dimensions that follow a named dimension of the arguments."""
    names = {d: size for s, t in _slots(policy) for d, size in zip(s, t.shape) if isinstance(d, str)}
    shapes = {part.path: list(part.shape) for part in parts}
    for name, size in names.items():
        other = _sizes_after(policy, {**names, name: size + 1}, calls)
        for path, found in other.items():
            if path in shapes and len(found) == len(shapes[path]):
                for d, (was, now) in enumerate(zip(shapes[path], found)):
                    if isinstance(was, int) and now != was:
                        shapes[path][d] = name
    return [replace(part, shape=tuple(shapes[part.path])) for part in parts]


def _sizes_after(policy: Policy, sizes: Mapping[str, int], calls: int) -> dict[str, Sequence[int]]:
    """The shapes of all tensors of the state after some calls at other sizes; none where the module refuses them."""
    slots = iter(policy.interface.inputs)
    args, kwargs = pytree.tree_map(
        lambda v: resize(v, next(slots).shape, sizes) if isinstance(v, torch.Tensor) else v,
        (tuple(policy.example_args), dict(policy.example_kwargs)),
    )
    with preserved_generators(), policy.working.fresh() as module:
        try:
            for _ in range(calls):
                module(*_cloned(args), **_cloned(kwargs))
        except Exception:  # the user's forward: its state does not follow the sizes
            return {}
        leaves = Layout.of(module).leaves()
    return {p: tuple(leaf.value.shape) for p, leaf in leaves.items() if hasattr(leaf.value, "shape")}


def _slots(policy: Policy) -> list[tuple[tuple[int | str, ...], torch.Tensor]]:
    leaves = pytree.tree_leaves((tuple(policy.example_args), dict(policy.example_kwargs)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return [(slot.shape, tensor) for slot, tensor in zip(policy.interface.inputs, tensors)]


def _starts_alike(policy: Policy, found: Found, calls: Calls) -> bool:
    """Whether the policy does the same, to the last bit, when it starts from the parts' first values."""
    module = Stepped(policy.working.module, found.parts, found.layouts)
    initial = tuple(part.initial for part in found.parts)
    for trial in range(_TRIALS):
        order = [*calls[trial:], *calls[:trial]]
        try:
            if not _same_episode(policy, module, initial, order):
                return False
        except Exception:  # the user's forward does not take the parts' first values, or an input
            return False
    return True


def _same_episode(policy: Policy, module: Stepped, state: tuple[torch.Tensor, ...], order: Calls) -> bool:
    kwargs = dict(policy.example_kwargs)
    with preserved_generators(), policy.working.fresh() as own:
        torch.manual_seed(0)
        wanted = [pytree.tree_leaves(_cloned(own(*_cloned(args), **_cloned(kwargs)))) for args in order]
    with preserved_generators(), policy.working.fresh():
        torch.manual_seed(0)
        for args, expected in zip(order, wanted):
            result, state = module(*_cloned(args), **_cloned(kwargs), **{KEYWORD: state})
            leaves = pytree.tree_leaves(result)
            if len(leaves) != len(expected) or not all(_is_same(a, b) for a, b in zip(leaves, expected)):
                return False
    return True


def _with_phases(policy: Policy, layouts: list[Layout], changed: set[str], choices: Chosen) -> Found:
    """Each structure of the first calls is kept; a counter says which one it is. What has another shape or type in the
    first calls than later is another part."""
    parts: dict[str, Part] = {}
    names: list[dict[str, str]] = []
    for number, layout in reversed(list(enumerate(layouts))):
        names.insert(0, {})
        for path, leaf in layout.leaves().items():
            if path not in changed:
                continue
            (part,) = _with_dimensions(policy, [_part(leaf, layouts[0].leaves().get(path), choices)], number)
            alike = (n for n, p in parts.items() if p.path == path and (p.kind, p.shape) == (part.kind, part.shape))
            name = next(alike, path if path not in parts else f"{path}.early{number}")
            parts.setdefault(name, part)
            if name != path:
                names[0][path] = name
    counter = Part(PHASE, int, torch.zeros((), dtype=torch.int64), ())
    return Found([*(replace(p, path=n) for n, p in parts.items()), counter], layouts, names=tuple(names))


def _varied(policy: Policy) -> Iterator[tuple[Any, ...]]:
    """The example with other values, so that nothing rests on an example of zeros or ones."""
    generator = torch.Generator().manual_seed(0)

    def vary(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            return leaf + torch.randn(leaf.shape, generator=generator).to(leaf.dtype)
        if isinstance(leaf, torch.Tensor) and leaf.dtype is torch.bool:
            return torch.rand(leaf.shape, generator=generator) > 0.5
        return leaf

    for _ in range(3):
        yield pytree.tree_map(vary, tuple(policy.example_args))


def _sizes(tree: Any) -> list[torch.Size]:
    return [leaf.shape for leaf in pytree.tree_leaves(tuple(tree)) if isinstance(leaf, torch.Tensor)]


def _cloned(tree: Any) -> Any:
    def clone(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            return leaf.copy()
        return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf

    return pytree.tree_map(clone, tree)
