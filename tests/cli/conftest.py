"""Runs the command line as users do, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from graphaudit.cli import main

Run = Callable[..., "subprocess.CompletedProcess[str]"]

WALKER = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, obs):
        return torch.tanh(self.layer(obs))

def build():
    torch.manual_seed(0)
    return Net().eval()

def example_inputs():
    return (torch.zeros(2, 3),)

dynamic_shapes = ({0: "batch"},)
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`run("audit", …)` in an empty folder with `walker.py`; fails on a traceback or more than two lines of error."""
    (tmp_path / "walker.py").write_text(WALKER)

    def command(*arguments: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "graphaudit", *arguments],
            cwd=tmp_path,
            env={**_environment(), **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return command


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """As `run`, in this process: for what needs no process of its own, which takes seconds to import torch."""
    (tmp_path / "walker.py").write_text(WALKER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        capfd.readouterr()
        status = main(arguments)
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, status, out, err)

    return command


def _environment() -> dict[str, str]:
    """This one's, with one thread, and without the width of whatever terminal the tests were started from."""
    return {**{k: v for k, v in os.environ.items() if k != "COLUMNS"}, "OMP_NUM_THREADS": "1"}
