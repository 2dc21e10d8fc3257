"""What Python calls by itself: properties, operators and constructors of the user's classes, for one capture."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any

from torch import nn

from graphaudit.graphs.places import is_engine

if TYPE_CHECKING:
    from graphaudit.capture.control_flow.session import Session

_LEFT_ALONE = {
    *("__new__", "__getattribute__", "__getattr__", "__setattr__", "__delattr__", "__del__", "__init_subclass__"),
    *("__class_getitem__", "__repr__", "__hash__", "__format__", "__str__", "__reduce__", "__getstate__"),
    *("__setstate__", "__deepcopy__", "__copy__"),
}


def adopt(kind: type, session: Session) -> None:
    """Let Python run the transpiled functions of a class of the user's, until `release`."""
    for each in kind.__mro__:
        if each in session.adopted or each is object:
            continue
        session.adopted[each] = []
        if _is_users(each):
            for name, value in list(vars(each).items()):
                _replace(each, name, value, session)


def release(session: Session) -> None:
    """Put the classes' own functions back."""
    for kind, originals in session.adopted.items():
        for name, value in originals:
            setattr(kind, name, value)
    session.adopted.clear()


def _replace(kind: type, name: str, value: Any, session: Session) -> None:
    from graphaudit.capture.control_flow.calls import convert

    converted = value
    if isinstance(value, property) and isinstance(value.fget, FunctionType):
        getter = convert(value.fget)
        converted = value if getter is value.fget else property(getter, value.fset, value.fdel, value.__doc__)
    elif isinstance(value, FunctionType) and name.startswith("__") and name.endswith("__"):
        of_modules = issubclass(kind, nn.Module) and name in ("__init__", "__call__")
        converted = value if name in _LEFT_ALONE or of_modules else convert(value)
    if converted is not value:
        session.adopted[kind].append((name, value))
        setattr(kind, name, converted)


def _is_users(kind: type) -> bool:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return file is not None and not is_engine(file)
