"""The passes as data, for `graphaudit passes` and the docs."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Iterable
from typing import Any

import msgspec

from graphaudit.rewrite.base import Pass


class OptionEntry(msgspec.Struct, kw_only=True):
    """One option of a pass. `type` is as Python spells it, with its limits: `int ≥ 1`."""

    name: str
    type: str
    value: Any


class PassEntry(msgspec.Struct, kw_only=True):
    """One pass. `needs` names the passes it runs after and the properties it requires; `number` is its place."""

    number: int
    name: str
    level: str
    summary: str
    fixes: list[str]
    claims: str
    runs_after: list[str]
    runs_before: list[str]
    requires: list[str]
    ensures: list[str]
    only_without: list[str]
    options: list[OptionEntry]
    default: bool
    module: str


def catalogue(pipeline: Iterable[Pass[Any]]) -> list[PassEntry]:
    """The passes of a pipeline, in its order."""
    return [_entry(number, step) for number, step in enumerate(pipeline, 1)]


def _entry(number: int, step: Pass[Any]) -> PassEntry:
    cls = type(step)
    docs = inspect.cleandoc(sys.modules[cls.__module__].__doc__ or cls.__doc__ or "")
    return PassEntry(
        number=number,
        name=cls.name,
        level=cls.level.value,
        summary=docs.partition("\n\n")[0].replace("\n", " "),
        fixes=list(cls.fixes),
        claims=cls.claims.value,
        runs_after=sorted(cls.runs_after),
        runs_before=sorted(cls.runs_before),
        requires=list(cls.requires),
        ensures=list(cls.ensures),
        only_without=list(cls.only_without),
        options=_options(step),
        default=cls.default,
        module=cls.__module__,
    )


def _options(step: Pass[Any]) -> list[OptionEntry]:
    hints = typing.get_type_hints(type(step.options), include_extras=True)
    return [
        OptionEntry(name=f.name, type=_spelled(hints[f.name]), value=getattr(step.options, f.name))
        for f in msgspec.structs.fields(step.options)
    ]


def _spelled(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Annotated:
        base, *metas = typing.get_args(hint)
        signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
        limits = [f"{s} {v}" for m in metas for k, s in signs.items() if (v := getattr(m, k, None)) is not None]
        return " ".join([_spelled(base), *limits])
    return hint.__name__ if isinstance(hint, type) else str(hint)
