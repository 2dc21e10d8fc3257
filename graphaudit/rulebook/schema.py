"""The shape of a target file in `rules/targets/`, and what makes one invalid. Imports nothing heavy.

A file either answers from an installed registry (`"source": "onnx.defs"` or `"onnxruntime.kernels"`) or holds the
answers itself (`"source": "table"`). What torch itself does with an operator that a device has no kernel for, or that a
graph compiler does not convert, comes from the installed torch (`"aten.kernels"`, `"aten.converters"`; `"aten.schemas"`
where torch itself runs the graph). `"extends"`
names a file whose facts it shares; what it sets itself wins, entry by entry, and limits add up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from graphaudit.errors import RuleError
from graphaudit.rulebook.conditions import When
from graphaudit.rulebook.lines import line_of_error, line_of_fault
from graphaudit.rulebook.target import Target

T = TypeVar("T")

_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (4, 8, 16, 32, 64)}
_FLOATS = {"float16", "bfloat16", "float32", "float64", "complex64", "complex128"}
_FLOATS8 = {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn"}
DTYPES = frozenset({"bool", "string", *_INTEGERS, *_FLOATS, *_FLOATS8})
_PROPERTIES = frozenset(Target.__struct_fields__) - {"name", "summary", "facts", "date"}
_VERSION = re.compile(r"^\d+\.\d+$")
_REMEDY = "Correct the file; graphaudit/rulebook/schema.py says what it may hold."

SourceKind = Literal["onnx.defs", "onnxruntime.kernels", "table", "aten.kernels", "aten.converters", "aten.schemas"]

# What a target does with a node that a limit applies to:
Effect = Literal[
    "refused",  # does not take it
    "differs",  # takes it, and may compute something else without a word
    "moved",  # runs it on another engine
    "undocumented",  # may or may not take it: nobody says
    "noted",  # takes it; worth knowing
]


class Source(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where facts come from: repository, path and commit, or package; the day they were `read` (ISO 8601).

    A fact names its source by key; where `cites` holds `{path}`, by `key:path`.
    """

    cites: str
    read: str
    licence: str
    trust: Literal["high", "medium", "low"] = "high"


class Property(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One fact about the target as a whole; `value` goes into `Target`."""

    value: bool | int | str | tuple[str, ...]
    rule: str
    sources: tuple[str, ...]


class Limit(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What happens to a node under a condition (none: always). `engine` says where a moved node runs."""

    rule: str
    effect: Effect
    sources: tuple[str, ...]
    when: When | None = None
    engine: str | None = None


class Ignored(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An attribute that the target never reads: it matters, under `when`, unless its value is one of the `harmless`.

    `default` is the value where the node does not set it (none: then it does not matter).
    """

    sources: tuple[str, ...]
    harmless: tuple[Any, ...] = ()
    default: Any = None
    when: When | None = None


class OpRule(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """What is known of one op, which a graph of ATen ops spells as FX does: `aten.cumsum.default`, or `operator.*`.

    `opsets` are those of its domain; none at all mean that the target has no such op. `torch` are the versions of torch
    with which it has the op, `2.1` to `2.15`. `engines` lists for each engine the dtypes that it takes for input
    `data_input`, the one to wish for first.
    `becomes` names the target's own ops.
    """

    sources: tuple[str, ...]
    opsets: tuple[tuple[int, int], ...] | Literal["any"] | UnsetType = UNSET
    torch: tuple[tuple[str, str], ...] = ()
    why: str | UnsetType = UNSET
    becomes: tuple[str, ...] | UnsetType = UNSET
    ignored: dict[str, Ignored] = {}
    limits: tuple[Limit, ...] = ()
    engines: dict[str, tuple[str, ...]] | UnsetType = UNSET
    data_input: int = 0


class DtypeRule(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What happens to every op with such a dtype, unless its own `engines` say otherwise.

    A dtype that `differs` is converted to another one, so that holds whatever the engines take.
    """

    rule: str
    effect: Effect
    sources: tuple[str, ...]
    engine: str | None = None


class TargetFile(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One file of `rules/targets/`. An `abstract` one is only there to be extended.

    `otherwise` names the target that runs what this one leaves: then only the ops that this file names itself are its
    own, with what it inherits about them.
    """

    name: str
    summary: str
    extends: str | None = None
    abstract: bool = False
    source: SourceKind | UnsetType = UNSET
    provider: str = ""
    otherwise: str | None = None
    facts: str = ""
    date: str = ""
    sources: dict[str, Source] = {}
    properties: dict[str, Property] = {}
    ops: dict[str, OpRule] = {}
    dtypes: dict[str, DtypeRule] = {}


def parse(text: bytes, file: str) -> TargetFile:
    """The file's contents, valid by themselves. Raises RuleError that names the file, the line and the reason."""
    try:
        parsed = msgspec.json.decode(text, type=TargetFile)
    except msgspec.DecodeError as error:
        line = line_of_error(text.decode(errors="replace"), error, TargetFile)
        raise RuleError(f"{_at(file, line)}: {error}", _REMEDY) from error
    _refuse(_faults(parsed), file, text)
    return parsed


def extend(parent: TargetFile, child: TargetFile) -> TargetFile:
    """`child` with everything that it takes over from `parent`."""
    inherited = {k: v for k, v in parent.ops.items() if child.otherwise is None or k in child.ops}
    return msgspec.structs.replace(
        child,
        source=parent.source if child.source is UNSET else child.source,
        provider=child.provider or parent.provider,
        facts=child.facts or parent.facts,
        date=max(child.date, parent.date),
        sources={**parent.sources, **child.sources},
        properties={**parent.properties, **child.properties},
        ops={**inherited, **{k: _extend_op(parent.ops.get(k), v) for k, v in child.ops.items()}},
        dtypes={**parent.dtypes, **child.dtypes},
    )


def validate(complete: TargetFile, file: str, text: bytes) -> None:
    """Check what only the whole inheritance chain can satisfy; `text` is the last file of it. Raises RuleError."""
    faults = []
    if complete.source is UNSET:
        faults.append("no `source` says which kind of source answers")
    needed = () if _takes_fx(complete) else ("opset", "max_opset")
    faults += [f"property `{name}` is missing" for name in needed if name not in complete.properties]
    faults += [f"property `{name}` is no field of Target" for name in complete.properties if name not in _PROPERTIES]
    for where, names in _citations(complete):
        unknown = [name for name in names if not is_known(name, complete.sources)]
        faults += [f"{where} cites {name!r}, which `sources` does not list" for name in unknown]
    for name, op in complete.ops.items():
        if op.opsets is UNSET and not op.torch:
            faults.append(f"ops.{name} has no `opsets`" + (" and no `torch`" if _takes_fx(complete) else ""))
    _refuse(faults, file, text)


def _takes_fx(file: TargetFile) -> bool:
    return "graph" in file.properties and file.properties["graph"].value == "fx"


def _extend_op(parent: OpRule | None, child: OpRule) -> OpRule:
    if parent is None:
        return child
    return OpRule(
        sources=tuple(dict.fromkeys((*parent.sources, *child.sources))),
        opsets=_first_set(child.opsets, parent.opsets),
        torch=child.torch or parent.torch,
        why=_first_set(child.why, parent.why),
        becomes=_first_set(child.becomes, parent.becomes),
        ignored={**parent.ignored, **child.ignored},
        limits=(*parent.limits, *child.limits),
        engines=_first_set(child.engines, parent.engines),
        data_input=child.data_input or parent.data_input,
    )


def _first_set(child: T | UnsetType, parent: T | UnsetType) -> T | UnsetType:
    return parent if child is UNSET else child


def _faults(parsed: TargetFile) -> Iterator[str]:
    for where, names in _citations(parsed):
        if not names:
            yield f"{where} has no source"
    for name, op in parsed.ops.items():
        if isinstance(op.opsets, tuple):
            yield from (f"ops.{name}: {fault}" for fault in _range_faults(op.opsets))
        yield from (f"ops.{name}: {fault}" for fault in _version_faults(op.torch))
        for engine, dtypes in (op.engines or {}).items():
            yield from _dtype_faults(dtypes, f"ops.{name}.engines.{engine}")
        for index, limit in enumerate(op.limits):
            where = f"ops.{name}.limits[{index}]"
            if limit.effect == "moved" and not limit.engine:
                yield f"{where} is moved to no `engine`"
            yield from _when_faults(limit.when, where)
        for attribute, ignored in op.ignored.items():
            yield from _when_faults(ignored.when, f"ops.{name}.ignored.{attribute}")
    yield from _dtype_faults(parsed.dtypes, "dtypes")


def _when_faults(when: When | None, where: str) -> Iterator[str]:
    if when is not None:
        yield from _dtype_faults(when.dtypes, where)
        yield from (f"{where}: {fault}" for fault in when.faults())
        yield from (f"{where}: {fault}" for fault in _range_faults((when.opsets,) if when.opsets else ()))


def _range_faults(ranges: tuple[tuple[int, int], ...]) -> Iterator[str]:
    for low, high in ranges:
        if not 1 <= low <= high:
            yield f"opset range {low} to {high} is not a range"
    for (low, high), (after, end) in pairwise(sorted(ranges)):
        if after <= high:
            yield f"opset ranges {low} to {high} and {after} to {end} overlap"


def _version_faults(ranges: tuple[tuple[str, str], ...]) -> Iterator[str]:
    for low, high in ranges:
        if not (_VERSION.match(low) and _VERSION.match(high) and torch_version(low) <= torch_version(high)):
            yield f"{low} to {high} are no versions of torch"


def torch_version(version: str) -> tuple[int, ...]:
    """`2.13` → (2, 13), which compares as versions do."""
    return tuple(map(int, version.split(".")))


def _dtype_faults(dtypes: Iterable[str], where: str) -> Iterator[str]:
    yield from (f"{where}: unknown dtype {dtype!r}" for dtype in dtypes if dtype not in DTYPES)


def _citations(parsed: TargetFile) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield from ((f"properties.{name}", p.sources) for name, p in parsed.properties.items())
    yield from ((f"dtypes.{name}", d.sources) for name, d in parsed.dtypes.items())
    for name, op in parsed.ops.items():
        yield f"ops.{name}", op.sources
        yield from ((f"ops.{name}.limits[{i}]", limit.sources) for i, limit in enumerate(op.limits))
        yield from ((f"ops.{name}.ignored.{a}", i.sources) for a, i in op.ignored.items())


def _refuse(faults: Iterable[str], file: str, text: bytes) -> None:
    found = list(faults)
    if found:
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
        line = line_of_fault(text.decode(), found[0])
        raise RuleError(
            f"{_at(file, line)}: {'; '.join(found[:3])}{more}",
            _REMEDY,
        )


def _at(file: str, line: int | None) -> str:
    return file if line is None else f"{file}, line {line}"


def cite(names: Iterable[str], sources: Mapping[str, Source]) -> tuple[str, str | None]:
    """The sources behind `names` as one line, and the day that the last of them was read."""
    lines, days = [], []
    for name in names:
        key, _, path = name.partition(":")
        lines.append(sources[key].cites.replace("{path}", path))
        days.append(sources[key].read)
    return "; ".join(lines), max(days, default=None)


def is_known(name: str, sources: Mapping[str, Source]) -> bool:
    """Whether a fact may name that source: it is listed, and gives a path where, and only where, one is wanted."""
    key, _, path = name.partition(":")
    return key in sources and bool(path) == ("{path}" in sources[key].cites)
