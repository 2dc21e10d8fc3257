"""What a traced forward writes to the attributes of its module: under a condition that no call so far has met, too."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from graphaudit.capture.attributes import AttributeWatch
from graphaudit.capture.control_flow import Number
from graphaudit.capture.control_flow.alternatives import Either
from graphaudit.capture.control_flow.arrays import Array, tensor_of
from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.policy.isolation import other_forward
from graphaudit.policy.state import CHOSEN, Layout, Leaf
from graphaudit.policy.stepping import Stepped

_TRACED = (Number, Array, Either)
_OBJECTS = (torch.Tensor, np.ndarray, *_TRACED)

Written = dict[str, tuple[Any, ...]]  # paths, with the texts or members of an enum that it was left at


@contextmanager
def attributes_written(module: nn.Module, written: Written) -> Iterator[None]:
    """While it lasts, a traced call of the user's module adds to `written` the paths of what it leaves changed. Raises
    Refused where it leaves something that no tensor can hold, and a tensor decides what."""
    policy = module.policy if isinstance(module, Stepped) else module
    known = {path for layout in module.layouts for path in layout.nodes} if isinstance(module, Stepped) else set()
    forward = policy.forward

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        before = _held(Layout.of(policy, numbers=_TRACED))
        result = forward(*args, **kwargs)
        after = Layout.of(policy, numbers=_TRACED)
        _refuse_undecided(after, known)
        for path, leaf in after.leaves().items():
            if _differs(leaf, before.get(path)):
                chosen = (v for v in _values(leaf.value) if isinstance(v, CHOSEN))
                written[path] = tuple(dict.fromkeys((*written.get(path, ()), *chosen)))
        return result

    with other_forward(policy, run):
        yield


def _held(layout: Layout) -> dict[str, tuple[Any, int]]:
    """The leaves with the versions of their tensors, which count writes in place."""
    return {path: (leaf.value, _version(leaf.value)) for path, leaf in layout.leaves().items()}


def _differs(leaf: Leaf, before: tuple[Any, int] | None) -> bool:
    if before is None:
        return False  # it was not there in the first call either, or every call makes it
    value, version = before
    if isinstance(value, _OBJECTS) or isinstance(leaf.value, _OBJECTS):
        return leaf.value is not value or _version(leaf.value) != version
    return bool(leaf.value != value)


def _values(value: Any) -> Iterator[Any]:
    """The Python values that it may be."""
    if isinstance(value, Either):
        yield from _values(value.taken)
        yield from _values(value.other)
    else:
        yield value


def _version(value: Any) -> int:
    tensor = tensor_of(value)
    return tensor._version if isinstance(tensor, torch.Tensor) and not tensor.is_inference() else 0


def _refuse_undecided(layout: Layout, known: set[str]) -> None:
    """Where the attribute is not among those whose structures are `known` from calls, and checked after each."""
    for leaf in layout.leaves().values():
        value = leaf.value
        if not isinstance(value, Either) or all(isinstance(v, CHOSEN) for v in _values(value)):
            continue
        (root,) = (layout.nodes[path][0] for path in layout.roots_of({leaf.path}))
        if root.path not in known:
            place = AttributeWatch.use_of(root.owner, root.name)
            said = f"attribute {root.path} holds one of {value.kinds} after the call, which no tensor can be"
            raise Refused.at(place, said, "branch-types-differ")
