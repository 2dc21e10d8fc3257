"""The example plugin, installed as users install one, in the real command line; and plugins that are broken."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugin"
POLICY = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.out = nn.Linear(3, 600), nn.Linear(600, 2)

    def forward(self, obs):
        return self.out(torch.relu(self.wide(obs / 0.25))) / 3.0

def build():
    torch.manual_seed(0)
    return Net().eval()

def example_inputs():
    return (torch.ones(2, 3),)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example package installed in it."""
    source, site = tmp_path_factory.mktemp("source") / "plugin", tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLE, source)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(site)]
    subprocess.run([*pip, str(source)], check=True, capture_output=True)
    return site


def broken(folder: Path, group: str, value: str, code: str = "") -> Path:
    """A folder with an installed package that registers `value`."""
    (folder / "sick.py").write_text(code)
    info = folder / "sick-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sick\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\nmine = {value}\n")
    return folder


def test_a_pass_a_finding_and_a_target_of_a_third_party(run: Run, site: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text(POLICY)
    done = run(
        *("rewrite", "policy.py:build", "--target", "robot-arm", "--output", "bundle", "--inputs", "8"),
        *("--passes", "rewrite_exact_divisions(largest=4),remove_inference_noops", "--format", "json"),
        PYTHONPATH=str(site),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    row = next(r for r in report["passes"] if r["name"] == "rewrite_exact_divisions")
    assert row["changed"] == 1 and row["verdict"]["claim"] == "equivalent" and row["verdict"]["worst_abs"] == 0
    assert [left["reason"] for left in row["left"]] == ["multiplying by the inverse of 3.0 would round"]
    (finding,) = [f for f in report["findings"] if f["name"] == "wide-layer"]
    assert (finding["code"], finding["line"]) == ("GA901", 11) and "600 outputs" in finding["message"]
    assert "rewrite_exact_divisions" not in run("passes").stdout


@pytest.mark.parametrize(
    ("group", "value", "code", "said"),
    [
        ("graphaudit.passes", "sick:Mine", "", "sick:Mine raises AttributeError: "),
        ("graphaudit.passes", "sick:Mine", "import no_such_module", "raises ModuleNotFoundError: "),
        ("graphaudit.passes", "sick:Mine", "class Mine: pass", "sick:Mine is no Pass"),
        (
            "graphaudit.passes",
            "sick:Mine",
            "from graphaudit.rewrite.base import Pass\nclass Mine(Pass): name = 'mine'",
            "does not define level, run",
        ),
        (
            "graphaudit.checks",
            "sick:Mine",
            "raise SystemError('half\\ninstalled')",
            "raises SystemError: half installed",
        ),
        ("graphaudit.targets", "sick:Mine", "Mine = 1", "sick:Mine is no package"),
    ],
)
def test_a_broken_plugin_is_one_clear_line(
    run: Run, tmp_path: Path, group: str, value: str, code: str, said: str
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    command = {"graphaudit.passes": "passes", "graphaudit.checks": "explain", "graphaudit.targets": "targets"}[group]
    done = run(command, PYTHONPATH=str(broken(site, group, value, code)))
    assert done.returncode == 2 and not done.stdout
    error, remedy = done.stderr.splitlines()[-2:]
    assert error.startswith("error: the plugin 'mine' of sick 1.0 cannot be used: ") and said in error
    assert remedy == " help: Repair or uninstall sick."
