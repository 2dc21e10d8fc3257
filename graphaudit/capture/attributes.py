"""Which attributes and buffers of a module a call bound anew or changed."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import nn

from graphaudit.capture.events import Event, EventKind
from graphaudit.capture.recorders import Recording
from graphaudit.capture.source import assignments
from graphaudit.findings import Place
from graphaudit.graphs.places import is_engine
from graphaudit.policy.usercode import is_users


class AttributeWatch:
    """Which plain attributes of a module a call changed: rebinding, and changes inside lists, dicts and sets; and which
    buffers it bound to another tensor."""

    def __init__(self, module: nn.Module) -> None:
        self._before = {id(p): (p, name, self._state(p)) for name, p in module.named_modules()}

    def report(self, recording: Recording) -> None:
        """Record one event for each name that does not stand for what it did, at the lines that assign to it."""
        for part, prefix, before in self._before.values():
            after = self._state(part)
            for name in sorted(before.keys() | after.keys()):
                if before.get(name) != after.get(name):
                    detail = f"{prefix}.{name}" if prefix else name
                    kind = EventKind.WRITE_BUFFER if name in part._buffers else EventKind.WRITE_ATTRIBUTE
                    recording.events.append(Event(kind, self.use_of(part, name), detail))

    @staticmethod
    def use_of(part: nn.Module, attribute: str) -> Place | None:
        """The first line of the class's source that assigns to the attribute (outside __init__), else that uses it."""
        for cls in type(part).__mro__:
            module = sys.modules.get(cls.__module__)
            file = getattr(module, "__file__", None)
            forward = vars(cls).get("forward")
            code = getattr(forward, "__code__", None)
            if file is None or code is None or is_engine(file):
                continue
            lines = [n for n in assignments(file, attribute) if n > code.co_firstlineno] or assignments(file, attribute)
            return Place(file, lines[0] if lines else code.co_firstlineno)
        return None

    @staticmethod
    def _state(part: nn.Module) -> Mapping[str, Any]:
        hidden = ("_parameters", "_buffers", "_modules", "training")
        names = [n for n in vars(part) if n not in hidden and not n.endswith(("_hooks", "_hooks_with_kwargs"))]
        return {n: _identity(vars(part)[n]) for n in names} | {n: id(b) for n, b in part._buffers.items()}


def _identity(value: Any, depth: int = 4) -> Any:
    """Something that is another where the value is; `depth` bounds objects in objects."""
    if isinstance(value, np.ndarray):
        return id(value), value.tobytes() if value.dtype.kind in "biuf" else None
    if isinstance(value, dict):
        return [(k, _identity(v, depth)) for k, v in value.items()]
    if isinstance(value, list | tuple | deque):
        return [_identity(v, depth) for v in value]
    if depth and is_users(value) and not isinstance(value, nn.Module):
        return id(value), [(k, _identity(v, depth - 1)) for k, v in vars(value).items()]
    if isinstance(value, bool | int | float | complex | str | bytes | type(None)):
        return value
    return id(value)
