"""The containers of a call's arguments and results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def containers(spec: Any) -> Iterator[Any]:
    """The type of every container in a pytree spec, outermost first; a named tuple gives its own class."""
    if spec.is_leaf():
        return
    yield spec.context if _is_named(spec) else spec.type
    for child in spec.children():
        yield from containers(child)


def arguments(spec: Any) -> Iterator[Any]:
    """The specs of the single arguments in an interface's `in_spec`, which is that of `(args, kwargs)`."""
    for group in spec.children():
        yield from group.children()


def is_plain(kind: Any) -> bool:
    """Whether a container is a plain tuple or list, which names nothing."""
    return kind in (tuple, list)


def is_mapping(kind: Any) -> bool:
    """Whether a container maps keys to values."""
    from collections.abc import Mapping

    return isinstance(kind, type) and (issubclass(kind, Mapping) or "TensorDict" in kind.__name__)


def _is_named(spec: Any) -> bool:
    return isinstance(spec.context, type) and issubclass(spec.context, tuple) and hasattr(spec.context, "_fields")
