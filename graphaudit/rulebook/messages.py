"""What the error messages of targets' own tools mean: the files of `rules/errors/`. Imports nothing heavy."""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec

from graphaudit.errors import RuleError
from graphaudit.rulebook.schema import Source, cite, is_known

_PACKAGE = "graphaudit.rules.errors"


class Message(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One error: the `codes` it appears under, the `tool` that says it, and the findings that foresee it."""

    codes: tuple[str, ...]
    tool: str
    summary: str
    causes: tuple[str, ...]
    remedy: str
    sources: tuple[str, ...]
    findings: tuple[str, ...] = ()


class _File(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    family: str
    sources: dict[str, Source]
    errors: tuple[Message, ...]


class Found(msgspec.Struct, frozen=True):
    """An error and where it is known from."""

    message: Message
    family: str
    sources: tuple[str, ...]


@cache
def messages() -> list[Found]:
    """All that is known of errors, in the order of the files. Raises RuleError for a file that is not valid."""
    found = []
    for file in sorted(resources.files(_PACKAGE).iterdir(), key=lambda f: f.name):
        if file.name.endswith(".json"):
            found += read_messages(file.read_bytes(), file.name)
    return found


def read_messages(text: bytes, file: str) -> list[Found]:
    """The errors of one file, each with sources. Raises RuleError that names the file and the reason."""
    remedy = "Correct the file; graphaudit/rulebook/messages.py says what it may hold."
    try:
        parsed = msgspec.json.decode(text, type=_File)
    except msgspec.DecodeError as error:
        raise RuleError(f"{file}: {error}", remedy) from error
    seen: set[str] = set()
    for message in parsed.errors:
        where = f"{file}: {' '.join(message.codes)}"
        if not message.sources or not all(is_known(s, parsed.sources) for s in message.sources):
            raise RuleError(f"{where} has no source, or one that `sources` does not list", remedy)
        if seen & {code.lower() for code in message.codes}:
            raise RuleError(f"{where} stands there twice", remedy)
        seen |= {code.lower() for code in message.codes}
    return [Found(m, parsed.family, tuple(cite([s], parsed.sources)[0] for s in m.sources)) for m in parsed.errors]


def find_message(code: str) -> Found | None:
    """The error of that code, however it is capitalised."""
    return next((f for f in messages() if code.lower() in (c.lower() for c in f.message.codes)), None)
