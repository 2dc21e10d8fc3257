"""The excerpt of the user's line, on any line, column and width."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from graphaudit.findings import Place
from graphaudit.report import source
from graphaudit.report.layout import hanging, text

LINES = st.text(
    st.characters(exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", codec="utf-8"), max_size=150
)
COLUMNS = st.none() | st.integers(0, 200)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=LINES, column=COLUMNS, end=COLUMNS, width=st.integers(10, 200))
def test_it_fits_and_the_mark_lies_on_it(
    tmp_path: Path, line: str, column: int | None, end: int | None, width: int
) -> None:
    file = tmp_path / "a.py"
    file.write_text(f"# coding: utf-8\n{line}\n", encoding="utf-8")
    source._lines.cache_clear()
    shown = source.excerpt(Place(str(file), 2, column, end), width)
    if shown is None:
        assert not line.strip()
        return
    assert cell_len(shown.text) <= width
    assert shown.length >= 1
    assert shown.start >= 0
    assert shown.start + shown.length <= width
    assert "\n" not in shown.text
    assert "\x1b" not in shown.text


@settings(max_examples=300, deadline=None)
@given(head=st.text(max_size=30), body=st.text(max_size=200), width=st.integers(30, 120))
def test_wrapping_keeps_every_character(head: str, body: str, width: int) -> None:
    console = Console(width=width)
    lines = hanging(console, text(head.replace("\n", "")), text(" ".join(body.split())), indent=4)
    assert all(cell_len(line.plain) <= max(width, text(head).cell_len + 10) for line in lines)
    wanted = (text(head.replace("\n", "")).plain + text(" ".join(body.split())).plain).replace(" ", "")
    assert "".join(line.plain for line in lines).replace(" ", "").split() == wanted.split()
