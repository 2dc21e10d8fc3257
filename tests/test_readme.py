"""README.md stays true: its commands and programs run in a temporary folder, and what they print is what it shows.

Durations, versions and the last digits of differences depend on the machine; they are not compared. A line `…` stands
for lines that are left out. The test command that README gives is what `.ci/run` runs.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from graphaudit.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COLUMNS = 100
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)
LINKS = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", README)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples in it, at the width that README is written for."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    return tmp_path


def test_commands_and_programs_print_what_is_shown(clone: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shown = [(language, body) for language, body in BLOCKS if language in ("console", "python")]
    assert len(shown) > 7
    (finding,) = [json.loads(body) for language, body in BLOCKS if language == "json"]
    for language, body in shown:
        if language == "console":
            for command, expected in _commands(body):
                capfd.readouterr()
                main(shlex.split(command)[1:])
                _compare(command, capfd.readouterr().out, expected)
        elif body.startswith("# actor.py"):
            (clone / "actor.py").write_text(body)
        else:
            capfd.readouterr()
            exec(compile(body, "README.md", "exec"), {})
            comments = "\n".join(line[2:] for line in body.splitlines() if line.startswith("# "))
            _compare(body, capfd.readouterr().out, comments)
    findings = json.loads((clone / "walker-310p" / "report.json").read_text())["findings"]
    (found,) = [f for f in findings if f["name"] == finding["name"]]
    assert Path(finding.pop("file")).parts[-2:] == Path(found.pop("file")).parts[-2:]
    assert found == finding


def test_links_lead_somewhere() -> None:
    local = [link for link in LINKS if "://" not in link]
    assert len(local) > 4
    for link in local:
        assert (ROOT / link).exists(), link


def test_both_set_up_commands_are_one_line_of_python_and_pip() -> None:
    lines = [body.strip() for language, body in BLOCKS if language == "bash"]
    assert len(lines) == 2
    for line in lines:
        assert "\n" not in line
        assert line.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert re.search(r"<!-- test-command -->\n```bash\npython3 .* -m pytest\n```", README)


def _commands(block: str) -> list[tuple[str, str]]:
    """Each command of a console block, and what is shown below it."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def _compare(command: str, printed: str, shown: str) -> None:
    got, expected = _comparable(printed), _comparable(shown)
    assert expected, f"README shows no output of: {command}"
    if "…" not in expected:
        assert got == expected, command
        return
    rest = iter(got)
    for line in expected:
        assert line == "…" or line in rest, f"{command} does not print {line!r} there"


def _comparable(text: str) -> list[str]:
    text = re.sub(r"\d+(\.\d+)? m?s$", "TIME", text.strip(), flags=re.MULTILINE)
    text = re.sub(r"\d\.\de-\d\d", "N", text)
    text = re.sub(r"\d+ other passes", "N other passes", text)  # a new pass edits no README
    text = re.sub(r"\d+\.\d+\.\d+|≤ \d+", "VERSION", text)
    lines = [re.sub(r" +", " ", line.rstrip()) for line in text.splitlines()]
    return [line for line in lines if not re.fullmatch(r" \d+ elements? judged by how far eager itself moves", line)]
