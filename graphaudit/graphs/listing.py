"""A graph as text, and what changed between two graphs, line by line of the user's source."""

from __future__ import annotations

import difflib
import linecache
from collections.abc import Iterator

from graphaudit.findings import Place
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.text import printable, shown_path

_LONGEST = 60  # characters of an attribute


def listing(graph: GraphView) -> str:
    """One line for each input, node and output: name, dtype and shape, operator, operands, source line."""
    lines = [f"input   {_typed(value)}" for value in graph.inputs]
    lines += [f"{'  ' * depth(node)}{_call(node)}{_at(node.place)}" for node in graph.nodes]
    lines += [f"output  %{value.name}" for value in graph.outputs]
    return printable("\n".join(lines)) + "\n"


def difference(before: GraphView, after: GraphView) -> str:
    """What is gone (-) and what is new (+), under the source line that it stands for. Empty where nothing is."""
    old, new = _by_line(before), _by_line(after)
    parts: list[str] = []
    for place in dict.fromkeys([*old, *new]):
        lines = list(_changed(old.get(place, []), new.get(place, [])))
        if lines:
            parts += [_heading(place), *lines, ""]
    return printable("\n".join(parts))


def depth(node: Node) -> int:
    """How many regions the node stands in."""
    return node.graph.count("/") // 2 + 1 if node.graph else 0


def _by_line(graph: GraphView) -> dict[tuple[str, int] | None, list[str]]:
    lines: dict[tuple[str, int] | None, list[str]] = {}
    for node in graph.nodes:
        place = (node.place.file, node.place.line) if node.place else None
        lines.setdefault(place, []).append(_call(node))
    return lines


def _changed(old: list[str], new: list[str]) -> Iterator[str]:
    for line in list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:]:
        if not line.startswith("@@"):
            yield f"  {line[0]} {line[1:]}"


def _heading(place: tuple[str, int] | None) -> str:
    if place is None:
        return "no source line"
    source = linecache.getline(*place).strip()
    return f"{shown_path(place[0])}:{place[1]}   {source}".rstrip()


def _call(node: Node) -> str:
    results = ", ".join(_typed(v) for v in node.outputs) or f"%{node.name}"
    operands = [f"%{v.name}" if v is not None else "none" for v in node.inputs]
    operands += [f"{key}={_short(value)}" for key, value in node.attributes.items() if value is not None]
    operator = f"{node.domain}::{node.op}" if node.domain and not node.op.startswith(f"{node.domain}.") else node.op
    return f"{results} = {operator}({', '.join(operands)})"


def _typed(value: Value) -> str:
    sizes = ", ".join(map(str, value.shape)) if value.shape is not None else "…"
    return f"%{value.name}: {value.dtype or '?'}[{sizes}]"


def _at(place: Place | None) -> str:
    return f"   # {shown_path(place.file)}:{place.line}" if place else ""


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
