from __future__ import annotations

from pathlib import Path

import pytest

from graphaudit.capture.source import Span, locate


@pytest.mark.parametrize(
    ("source", "expression", "statement", "inside"),
    [
        ("if x.any():\n    y = 1\n", "x.any()", "if", set()),
        ("for i in range(3):\n    if x > i:\n        break\n", "x > i", "if", {"break", "loop"}),
        ("while x.norm() > 1:\n    x = x / 2\n", "x.norm() > 1", "while", set()),
        ("assert x.all(), 'no'\n", "x.all()", "assert", set()),
        ("y = a if x else b\n", "x", "ifexp", set()),
        ("y = max(u, v)\n", "max(u, v)", "call:max", set()),
        ("y = table[int(x)]\n", "int(x)", "index", set()),
        ("for row in rows:\n    y = row\n", "rows", "for", set()),
        ("y = [f(row) for row in rows]\n", "rows", "for", set()),
        ("y = x and z\n", "x", "and", set()),
        ("if bool(x) and z:\n    return_ = 1\n", "bool(x)", "if", set()),
        ("y = x.item()\n", "x.item()", "", set()),
    ],
)
def test_the_deciding_statement(tmp_path: Path, source: str, expression: str, statement: str, inside: set[str]) -> None:
    file = tmp_path / "policy.py"
    file.write_text(source)
    line = next(i for i, text in enumerate(source.splitlines(), 1) if expression in text)
    column = source.splitlines()[line - 1].index(expression)
    _, context = locate(Span(str(file), line, line, column, column + len(expression)))
    assert context.statement == statement and context.inside == inside


def test_a_jump_carries_the_position_of_its_whole_statement(tmp_path: Path) -> None:
    file = tmp_path / "policy.py"
    file.write_text("if done.any():\n    h = 0\n")
    span, context = locate(Span(str(file), 1, 2, 0, 9))
    assert (span.column, span.end_column, context.statement) == (3, 13, "if")


def test_a_file_that_is_gone_has_no_context() -> None:
    span = Span("/nowhere/policy.py", 1, 1, 0, 3)
    assert locate(span)[1].statement == ""
