"""Text that holds the value of a tensor: fit for messages, which a graph does not have, and for nothing else."""

from __future__ import annotations

from typing import Any

from graphaudit.capture.control_flow.conversions import has_data
from graphaudit.capture.control_flow.refusal import Refused


class Text:
    """A string that nobody knows before the graph runs. It may be joined, printed and raised."""

    def __add__(self, other: Any) -> Text:
        return self

    __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = __add__

    def __format__(self, spec: str) -> str:
        return "…"

    def __str__(self) -> str:
        return "…"

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise refusal()

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = __bool__ = __len__ = __iter__ = _refuse
    __contains__ = __getitem__ = __index__ = __getattr__ = _refuse


def refusal() -> Refused:
    """What such text cannot do."""
    return Refused("text that holds a tensor's value decides something here", "value-in-text")


def text(*parts: Any) -> Any:
    """An f-string: strings, and pairs of a value and its format."""
    if any(_is_unknown(part) for part in parts):
        return Text()
    return "".join(part if isinstance(part, str) else format(*part) for part in parts)


def percent(pattern: str, values: Any) -> Any:
    """`pattern % values`."""
    return Text() if _is_unknown(values) else pattern % values


def shown(*_: Any, **__: Any) -> Text:
    """`str(value)`, `repr(value)`, `pattern.format(value)` where a value is a tensor's."""
    return Text()


def _is_unknown(value: Any) -> bool:
    return has_data(value) or any(isinstance(v, Text) for v in (value if isinstance(value, tuple) else (value,)))
