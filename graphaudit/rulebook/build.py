"""Makes the target files in `rules/targets/` from the facts in `rules/facts/`. Same facts, same bytes. Light.

The facts of a target are one or two files. `NAME.json` is a target file as far as it was written by hand: sources,
properties, limits. `NAME.csv`, where there is one, is the survey of its operators, a row for each:

    op          the operator, `domain::Name` outside ai.onnx, `aten.cumsum.default` in a graph of ATen ops
    opsets      opset ranges, `8-13 16-18`; `any`; empty: the target has no such operator
    torch       the versions of torch with which the target has it, `2.1-2.12 2.15`
    becomes     the target's own operators
    data_input  the input whose dtype decides on the engine, where it is not the first
    notes       keys of `notes` in the JSON file, each a limit that several operators share
    sources     keys of `sources`, permissive ones first
    any other   an engine, and the dtypes that it takes, the one to wish for first

A column that is missing says nothing. Several entries are separated by blanks. `absent` in the JSON file says why an
operator without opsets is not taken, `{op}` being its name.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from graphaudit.errors import RuleError, TargetError
from graphaudit.rulebook.rulebook import read_target_file

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_PACKAGE = "graphaudit.rules.facts"
_WIDTH = 120
_COLUMNS = ("op", "opsets", "torch", "becomes", "data_input", "notes", "sources")
_REMEDY = "Correct the table; graphaudit/rulebook/build.py says what it may hold."


def buildable() -> list[str]:
    """The targets, abstract ones included, that are made from facts in the repository."""
    return sorted(name.removesuffix(".json") for name in _files() if name.endswith(".json"))


def build(name: str, surveys: Mapping[str, str] | None = None) -> bytes:
    """The target file made from the facts about `name`. Raises TargetError if there are none, RuleError.

    `surveys` are tables, by the name of their target, to take in place of those in the repository.
    """
    frame = _files().get(f"{name}.json")
    if frame is None:
        raise TargetError(f"there are no facts to build {name!r} from", f"There are for {', '.join(buildable())}.")
    try:
        facts: dict[str, Any] = json.loads(frame.read_bytes())
    except ValueError as error:
        raise RuleError(f"rules/facts/{frame.name}: {error}", "Correct the file.") from error
    shared = Shared(facts.pop("absent", ""), facts.pop("notes", {}))
    text = (surveys or {}).get(name) or survey(name)
    rows = read_table(text, f"{name}.csv", shared) if text else {}
    written = facts.pop("ops", {})
    ops = {op: rows.get(op, {}) | written.get(op, {}) for op in sorted(rows.keys() | written.keys())}
    if ops:
        facts["ops"] = ops
    built = (_pretty(facts) + "\n").encode()
    read_target_file(built, f"rules/facts/{name}")
    return built


def survey(name: str) -> str:
    """The table of the target's operators in the repository; empty where it has none."""
    table = _files().get(f"{name}.csv")
    return table.read_text(encoding="utf-8") if table is not None else ""


@dataclass(frozen=True)
class Shared:
    """What the rows of a survey share: why an operator without opsets is not taken, and limits by key."""

    absent: str = ""
    notes: Mapping[str, Any] = field(default_factory=dict)


def read_table(text: str, file: str, shared: Shared = Shared()) -> dict[str, dict[str, Any]]:
    """The operators of a survey as entries of `ops`. Raises RuleError that names file, line and reason."""
    rows = csv.DictReader(io.StringIO(text), strict=True)
    ops: dict[str, dict[str, Any]] = {}
    for row in rows:
        where = f"rules/facts/{file}, line {rows.line_num}"
        if None in row or None in row.values():
            raise RuleError(f"{where}: the row does not have one cell for each column", _REMEDY)
        name = row["op"]
        if name in ops:
            raise RuleError(f"{where}: {name} stands there already", _REMEDY)
        if not row["sources"].split():
            raise RuleError(f"{where}: {name} has no source", _REMEDY)
        ops[name] = _entry(row, where, shared)
    return ops


def _entry(row: dict[str, str], where: str, shared: Shared) -> dict[str, Any]:
    entry: dict[str, Any] = {"sources": row["sources"].split()}
    if "opsets" in row:
        entry["opsets"] = _spans(row["opsets"], where)
        if not entry["opsets"]:
            entry["why"] = shared.absent.format(op=row["op"])
    if row.get("torch"):
        entry["torch"] = [[low, high or low] for low, _, high in (v.partition("-") for v in row["torch"].split())]
    if row.get("becomes"):
        entry["becomes"] = row["becomes"].split()
    engines = {engine: cell.split() for engine, cell in row.items() if engine not in _COLUMNS and cell}
    if engines:
        entry["engines"] = engines
    unknown = [note for note in row.get("notes", "").split() if note not in shared.notes]
    if unknown:
        raise RuleError(f"{where}: there is no note {unknown[0]!r}", _REMEDY)
    if row.get("notes"):
        entry["limits"] = [shared.notes[note] for note in row["notes"].split()]
    if row.get("data_input"):
        entry["data_input"] = int(row["data_input"])
    return entry


def _spans(cell: str, where: str) -> str | list[list[int]]:
    if cell == "any":
        return cell
    try:
        return [[int(low), int(high or low)] for low, _, high in (span.partition("-") for span in cell.split())]
    except ValueError as error:
        raise RuleError(f"{where}: {cell!r} are no opset ranges", _REMEDY) from error


def _pretty(value: Any, indent: int = 0) -> str:
    """JSON with everything on one line that fits there."""
    line = json.dumps(value, ensure_ascii=False)
    if indent + len(line) <= _WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        parts = []
        for key, item in value.items():
            head = f"{json.dumps(key, ensure_ascii=False)}: "
            fits = indent + 2 + len(head) + len(json.dumps(item, ensure_ascii=False)) < _WIDTH
            parts.append(head + (json.dumps(item, ensure_ascii=False) if fits else _pretty(item, indent + 2)))
    else:
        parts = [_pretty(item, indent + 2) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{' ' * indent}{closing}"


@cache
def _files() -> dict[str, Traversable]:
    return {f.name: f for f in resources.files(_PACKAGE).iterdir() if f.name.endswith((".json", ".csv"))}
