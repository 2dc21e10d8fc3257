"""Results as one JSON document. NaN and infinity, which JSON does not have, become null."""

from __future__ import annotations

from typing import Any

import msgspec


def encode(value: Any) -> bytes:
    """`value` (a Struct or plain data) as indented UTF-8 JSON with a final newline; the same value, the same bytes."""
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a surrogate pair, as in a file name that is not UTF-8
        encoded = msgspec.json.encode(_valid(msgspec.to_builtins(value)))
    return msgspec.json.format(encoded, indent=2) + b"\n"


def _valid(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_valid(k): _valid(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_valid(v) for v in value]
    return value
