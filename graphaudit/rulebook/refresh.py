"""Brings tables in `rules/facts/` up to date with the sources they were made from, where somebody has these at hand.

Each function takes a table's text and a source, and gives the table's new text. Same source, same bytes.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from itertools import groupby

from graphaudit.rulebook.schema import torch_version
from graphaudit.rulebook.torch_npu_wheel import Converter, Wheel

_MAPPED = re.compile(r"^([\w.]+)::(\d+)::(\w+):", re.MULTILINE)


def kernels(table: str, wheel: Wheel) -> str:
    """`torch-npu.csv` with what the wheel has and has not for its torch; other versions of torch stay as they were."""
    columns, rows = _read(table)
    found = wheel.kernels()
    for op in found - rows.keys():
        rows[op] = dict.fromkeys(columns, "") | {"op": op}
    for op, row in rows.items():
        versions = _versions(row["torch"])
        changed = versions | {wheel.torch} if op in found else versions - {wheel.torch}
        row["torch"] = _spans(changed)
        sources = row["sources"].split()
        cited = dict.fromkeys([*sources, "wheel"] if op in found else [s for s in sources if s != "wheel"])
        row["sources"] = " ".join(cited)
    return _write(columns, (row for row in rows.values() if row["torch"]))


def converters(table: str, wheel: Wheel) -> str:
    """`torchair.csv` with the converters of the wheel, and no others; what a row says besides stays."""
    columns, old = _read(table)
    rows = []
    for op, converter in wheel.converters().items():
        taken = {"opsets": "" if converter is Converter.STUB else "any"}
        notes = {"notes": "partial" if converter is Converter.PARTIAL else ""}
        rows.append(dict.fromkeys(columns, "") | old.get(op, {}) | {"op": op, "sources": "wheel"} | taken | notes)
    return _write(columns, rows)


def parser_map(table: str, text: str) -> str:
    """`ascend.csv` with the opsets of msit's operator map, for the operators that rest on the map alone."""
    columns, rows = _read(table)
    mapped: dict[str, set[int]] = {}
    for domain, opset, op in _MAPPED.findall(text):
        mapped.setdefault(op if domain == "ai.onnx" else f"{domain}::{op}", set()).add(int(opset))
    for op, opsets in mapped.items():
        row = rows.setdefault(op, dict.fromkeys(columns, "") | {"op": op, "sources": "map"})
        if row["sources"] == "map":
            row["opsets"] = " ".join(_span(run) for run in _runs(opsets))
    return _write(columns, (row for op, row in rows.items() if row["sources"] != "map" or op in mapped))


def _read(table: str) -> tuple[list[str], dict[str, dict[str, str]]]:
    reader = csv.DictReader(io.StringIO(table))
    rows = {row["op"]: row for row in reader}
    return list(reader.fieldnames or ()), rows


def _write(columns: list[str], rows: Iterable[Mapping[str, str]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(rows, key=lambda row: row["op"]))
    return out.getvalue()


def _versions(cell: str) -> set[str]:
    """`2.1 2.6-2.8` → {2.1, 2.6, 2.7, 2.8}; the minor versions of torch 2 follow one another."""
    found = set()
    for low, _, high in (span.partition("-") for span in cell.split()):
        (major, first), (_, last) = torch_version(low), torch_version(high or low)
        found |= {f"{major}.{minor}" for minor in range(first, last + 1)}
    return found


def _spans(versions: Iterable[str]) -> str:
    runs = _runs(torch_version(v)[1] for v in versions)
    return " ".join(_span(run, "2.") for run in runs)


def _runs(numbers: Iterable[int]) -> list[list[int]]:
    """The numbers in ascending order, those that follow one another together."""
    pairs = groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0])
    return [[number for _, number in run] for _, run in pairs]


def _span(run: list[int], prefix: str = "") -> str:
    return f"{prefix}{run[0]}" + (f"-{prefix}{run[-1]}" if len(run) > 1 else "")
