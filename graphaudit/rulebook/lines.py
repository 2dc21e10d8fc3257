"""In which line of a JSON text something stands. Imports nothing heavy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

import msgspec

_BLANK = re.compile(r"\s*")
_BYTE = re.compile(r"\(byte (\d+)\)")
_PATH = re.compile(r"`\$([^`]*)`")
_STEP = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+|\.\.\.)\]")


def line_of(text: str, path: Sequence[str | int]) -> int:
    """The line of the entry that `path` leads to, or of the last part of `path` that exists."""
    position = _BLANK.match(text).end()  # type: ignore[union-attr]
    for step in path:
        found = dict(_entries(text, position)).get(step)
        if found is None:
            break
        position = found
    return text.count("\n", 0, position) + 1


def line_of_error(text: str, error: msgspec.DecodeError, kind: Any) -> int | None:
    """The line that msgspec complains about when it decodes `text` as `kind`."""
    byte = _BYTE.search(str(error))
    if byte is not None:
        return text.encode()[: int(byte[1])].count(b"\n") + 1
    where = _PATH.search(str(error))
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return line_of(text, [*_steps(where[1] if where else "", document, kind)])


def line_of_fault(text: str, fault: str) -> int | None:
    """The line of a fault that begins with the path of an entry: `ops.Relu.limits[0] has no source`."""
    section, _, rest = fault.removeprefix("property ").partition(".")
    entries = json.loads(text).get(section, {})
    key = max((k for k in entries if rest.startswith(k)), key=len, default=None)
    if key is None:
        return None
    limit = re.match(r"\.limits\[(\d+)\]", rest[len(key) :])
    return line_of(text, [section, key, *(("limits", int(limit[1])) if limit else ())])


def _steps(path: str, document: Any, kind: Any) -> Iterator[str | int]:
    """msgspec leaves the keys of mappings out of its paths: then the first entry that is not valid is meant."""
    walked: list[str] = []
    for name, index in _STEP.findall(path):
        if index == "...":
            if len(walked) != 1 or not isinstance(document.get(walked[0]), dict):
                return
            key = _first_invalid(document, walked[0], kind)
            if key is None:
                return
            yield key
        else:
            yield name or int(index)
        walked.append(name or index)


def _first_invalid(document: dict[str, Any], section: str, kind: Any) -> str | None:
    for key, value in document[section].items():
        try:
            msgspec.convert({**document, section: {key: value}}, kind)
        except msgspec.ValidationError:
            return str(key)
    return None


def _entries(text: str, position: int) -> Iterator[tuple[str | int, int]]:
    """The keys of the object, or indices of the list, that starts at `position`, and where each value starts."""
    decoder = json.JSONDecoder()
    opening = text[position : position + 1]
    position, index = _skip(text, position + 1), 0
    while opening in ("{", "[") and text[position] not in "}]":
        key: str | int = index
        if opening == "{":
            key, position = scanstring(text, position + 1)
            position = _skip(text, _skip(text, position) + 1)
        yield key, position
        _, position = decoder.raw_decode(text, position)
        position = _skip(text, position)
        position, index = _skip(text, position + (text[position] == ",")), index + 1


def _skip(text: str, position: int) -> int:
    return _BLANK.match(text, position).end()  # type: ignore[union-attr]
