"""The arrows of the design, kept: who may import whom, and that nothing heavy loads before it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Every package may import those named, itself, and the light modules that stand beside the packages.
ALLOWED = {
    "graphs": set(),
    "custom_ops": {"graphs"},
    "policy": {"graphs"},
    "capture": {"policy", "graphs"},
    "rulebook": {"graphs"},
    "runtimes": {"graphs"},
    "equivalence": {"policy", "graphs", "runtimes"},
    "paths": {"capture", "equivalence", "graphs", "policy"},
    "rewrite": {"equivalence", "graphs", "policy", "rulebook", "runtimes"},
    "export": {"custom_ops", "equivalence", "graphs", "policy", "rulebook", "runtimes"},
    "audit": {"capture", "export", "graphs", "policy", "rulebook"},
    "report": {"audit", "export", "rewrite", "rulebook"},
    "cli": {"custom_ops", "export", "graphs", "policy", "report", "rewrite", "rulebook"},
    "passes": {"custom_ops", "graphs", "rewrite", "rulebook", "equivalence"},
}


def modules(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*.py") if "__pycache__" not in p.parts)


def imports(file: Path, *, top_level: bool = False) -> Iterator[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.iter_child_nodes(tree) if top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_arrows_point_one_way(package: str) -> None:
    folder = ROOT / package if package == "passes" else ROOT / "graphaudit" / package
    for file in modules(folder):
        for name in imports(file):
            parts = name.split(".")
            if parts[0] != "graphaudit" or len(parts) < 2 or not (ROOT / "graphaudit" / parts[1]).is_dir():
                continue
            assert parts[1] in ALLOWED[package] | {package}, f"{file.relative_to(ROOT)} imports {name}"


def test_the_engine_names_no_pass_and_no_check() -> None:
    for file in modules(ROOT / "graphaudit"):
        for name in imports(file):
            assert not name.startswith(("graphaudit.passes.", "graphaudit.rules.checks.")), f"{file} imports {name}"


def test_checks_import_nothing_heavy_at_their_top() -> None:
    heavy = {"torch", "onnx", "onnxruntime", "numpy", "networkx", "onnxsim", "onnx_graphsurgeon"}
    for file in modules(ROOT / "rules" / "checks"):
        found = {name.split(".")[0] for name in imports(file, top_level=True)} & heavy
        assert not found, f"{file.relative_to(ROOT)} imports {found}"


@pytest.mark.parametrize("command", [["--help"], ["explain"], ["targets"], ["explain", "naive-softmax"]])
def test_light_commands_import_no_torch(command: list[str]) -> None:
    code = f"import sys; from graphaudit.cli import main; main({command!r}); sys.stdout.flush()\n"
    code += "sys.exit(7 if 'torch' in sys.modules else 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_package_is_shipped() -> None:
    shipped = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    folders: set[str] = set()
    for top, prefix in (("graphaudit", "graphaudit"), ("passes", "graphaudit.passes"), ("rules", "graphaudit.rules")):
        for init in (ROOT / top).rglob("__init__.py"):
            inner = init.parent.relative_to(ROOT / top).parts
            folders.add(".".join([prefix, *inner]))
    assert shipped == folders


def test_every_pass_has_a_test_file_of_its_own() -> None:
    for file in sorted((ROOT / "passes").glob("[a-z]*.py")):
        assert (ROOT / "tests" / "passes" / f"test_{file.name}").exists(), file.name


def test_the_product_never_reaches_outside_its_repository() -> None:
    for folder in ("graphaudit", "passes", "rules", "tests", "examples", "benchmarks"):
        for file in modules(ROOT / folder):
            if file != Path(__file__).resolve():
                assert "../shared" not in file.read_text(encoding="utf-8"), file
