"""How names and messages are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphaudit.text import counted, one_line, printable, shown_path, suggestion


def test_control_and_direction_characters_become_escapes() -> None:
    assert printable("a\x1b[1m\x00\x9b\u202e\ud800\U000e0001") == "a\\x1b[1m\\x00\\x9b\\u202e\\ud800\\U000e0001"
    assert printable("größer 名前 |Δ| 🙂\tx\n") == "größer 名前 |Δ| 🙂\tx\n"


def test_one_line_joins_and_cuts() -> None:
    assert one_line("a\n  b\r\n\tc") == "a b c"
    assert one_line("x" * 400, 10) == "x" * 9 + "…"


def test_paths_below_the_working_folder_are_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown_path(tmp_path / "a" / "b.py") == "a/b.py"
    assert shown_path("/elsewhere/b.py") == "/elsewhere/b.py"
    assert shown_path("b.py") == "b.py"


def test_near_names_are_suggested() -> None:
    assert suggestion("biuld", ["build", "other"]) == "Did you mean 'build'?"
    assert suggestion("ascend-310", ["ascend-310p", "ascend-310b", "onnx"]).count(" or ") == 1
    assert suggestion("zzz", ["build"]) == ""


def test_counts_agree_in_number() -> None:
    assert [counted(n, "branch", "branches") for n in (0, 1, 2)] == ["0 branches", "1 branch", "2 branches"]
    assert counted(41220, "parameter") == "41,220 parameters"
