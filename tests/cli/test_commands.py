"""Commands that need no policy, and how the command line answers bad arguments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from graphaudit.registry import checks
from tests.cli.conftest import Run


def imported(*arguments: str) -> set[str]:
    """The modules that a command imports."""
    program = (
        "import sys, json; from graphaudit.cli import main; status = main(sys.argv[1:]);"
        "print(json.dumps([status, *sys.modules]), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    status, *modules = json.loads(done.stderr.strip().splitlines()[-1])
    assert status == 0
    assert done.stdout
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize("arguments", [["--help"], ["audit", "--help"], ["rewrite", "-h"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert not imported(*arguments) & {"torch", "onnx", "onnxruntime", "numpy", "networkx", "stable_baselines3"}


@pytest.mark.parametrize("arguments", [["explain"], ["explain", "data-dependent-branch"]])
def test_explain_imports_neither_torch_nor_onnx(arguments: list[str]) -> None:
    assert not imported(*arguments) & {"torch", "onnx", "onnxruntime"}


def test_targets_imports_no_torch() -> None:
    assert "torch" not in imported("targets")


def test_help_names_every_command_and_the_exit_status(here: Run) -> None:
    text = here("--help").stdout
    for word in ("audit", "rewrite", "verify", "explain", "targets", "Exit status", "file.py:NAME"):
        assert word in text
    options = here("rewrite", "--help").stdout
    for option in ("--target", "--output", "--format", "--inputs", "--seed", "--trust", "--debug", "--example-inputs"):
        assert option in options


def test_targets_lists_names_facts_and_dates(here: Run) -> None:
    text = here("targets").stdout
    for target in ("onnx", "onnxruntime"):
        assert f"\n{target} " in text
    document = json.loads(here("targets", "--format", "json").stdout)
    names = [t["name"] for t in document]
    assert {"onnx", "onnxruntime"} <= set(names)
    assert names == sorted(names)
    assert all(t["facts"] and (t["opset"] or t["graph"] == "fx") for t in document)


def test_explain_speaks_json_too(here: Run) -> None:
    name, check = next(iter(checks().items()))
    document = json.loads(here("explain", check.code, "--format", "json").stdout)
    assert document["name"] == name
    assert document["text"] == check.explanation()
    assert [e["name"] for e in json.loads(here("explain", "--format=json").stdout)] == list(checks())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audt"], 'Did you mean "audit"'),
        (["audit"], "POLICY"),
        (["audit", "walker.py:build", "--loop-bound", "many"], "is not a loop bound"),
        (["audit", "walker.py:build", "--control-flw", "masks"], "--control-flw"),
        (["audit", "walker.py:build", "--format", "jsn"], '"json"'),
        (["audit", "walker.py:build", "--fail-on", "note"], '"warning"'),
        (["audit", "walker.py:build", "extra"], "extra"),
        (["rewrite", "walker.py:build", "--target", "onnx"], "--output"),
        (["rewrite", "walker.py:build", "--output", "o"], "--target"),
        (["rewrite", "walker.py:build", "--target", "onnx", "--output", "o", "--inputs", "x"], "--inputs"),
        (["rewrite", "walker.py:build", "--target", "onnx", "--output", "o", "--inputs", "0"], "--inputs"),
        (["explain", "data-dependent-brunch"], "'data-dependent-branch'"),
    ],
)
def test_bad_arguments_give_status_2_and_two_lines(
    here: Run, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = here(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert 1 <= len(done.stderr.splitlines()) <= 2
    assert not (tmp_path / "o").exists()


def test_errors_are_json_when_json_was_asked_for(here: Run) -> None:
    for arguments in (["audit", "--format", "json"], ["explain", "qqq", "--format=json"], ["x", "--format", "json"]):
        done = here(*arguments)
        assert done.returncode == 2
        document = json.loads(done.stdout)
        assert set(document) == {"error"}
        assert set(document["error"]) == {"message", "remedy"}
        assert document["error"]["message"] in done.stderr


def test_a_reader_that_leaves_early_changes_nothing(tmp_path: Path) -> None:
    for options in ("", "--format json"):
        script = f"set -o pipefail; {sys.executable} -m graphaudit explain {options} | true; echo $?"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "0"
        assert done.stderr == ""


def test_closed_standard_output_is_no_accident() -> None:
    script = f"{sys.executable} -m graphaudit explain --format json >&-; echo $? >&2"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr


def test_an_ascii_log_loses_no_line(run: Run) -> None:
    done = run("targets", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "onnxruntime" in done.stdout
