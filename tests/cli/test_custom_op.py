"""`graphaudit custom-op`: what it writes works, and what exists stays."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_a_new_operator_passes_its_tests_and_is_rewritten(here: Run) -> None:
    done = here("custom-op", "new", "robotics::sym_log", "--output", "ops")
    assert done.returncode == 0 and done.stdout.split() == ["wrote", "ops/sym_log.py", "wrote", "ops/test_sym_log.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_sym_log.py"]
    tested = subprocess.run(
        command, cwd="ops", capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
    )
    assert tested.returncode == 0 and "5 passed" in tested.stdout, tested.stdout[-2000:]
    road = ("--target", "onnxruntime", "--output", "bundle", "--inputs", "4")
    done = here("rewrite", "ops/sym_log.py:build", *road)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "becomes the node robotics::SymLog version 1" in done.stdout


def test_nothing_is_overwritten(here: Run) -> None:
    Path("test_symlog.py").write_text("mine")
    done = here("custom-op", "new", "symlog")
    assert done.returncode == 2 and "test_symlog.py exists, and is left as it is" in done.stderr
    assert Path("test_symlog.py").read_text() == "mine" and not Path("symlog.py").exists()


@pytest.mark.parametrize(
    "name", ["../x", "a b", "Symlog", "9x", "a::b::c", "", "torch", "random", "obs", "aten::x", "if"]
)
def test_names_that_cannot_be_used(here: Run, name: str) -> None:
    before = sorted(Path().iterdir())
    done = here("custom-op", "new", name)
    assert done.returncode == 2 and done.stderr.startswith("error: "), done.stderr
    assert sorted(Path().iterdir()) == before


OPERATORS = """
import torch
from graphaudit import OnnxNode, register_custom_op

def mix(x, mask, scale: float, axes: list[int], name: str, on: bool):
    return x * scale, mask.clone()

register_custom_op(
    "rl::mix", mix, plain=mix, examples=[(torch.ones(2), torch.ones(2, dtype=torch.bool), 0.5, [0, 1], "a", True)],
    onnx=OnnxNode("com.example", "Mix", version=4),
)
register_custom_op("rl::plainly", lambda x: x + 1, plain=lambda x: x + 1, examples=[(torch.ones(2),)])
"""


def test_the_start_of_a_plugin_for_ascend(here: Run) -> None:
    Path("operators.py").write_text(OPERATORS)
    done = here("custom-op", "skeleton", "operators.py", "--output", "plugin")
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in Path("plugin").iterdir()) == ["Mix_plugin.cc", "Mix_proto.cc"]
    plugin, proto = (Path("plugin", f"Mix_{part}.cc").read_text() for part in ("plugin", "proto"))
    assert 'OriginOpType({ge::AscendString("com.example::4::Mix")})' in plugin
    assert re.findall(r'SetAttr\("(\w+)"', plugin) == ["scale", "axes", "name", "on"]
    assert re.findall(r"\.(?:INPUT|OUTPUT|REQUIRED_ATTR)\((.*)\)", proto) == [
        *("x, TensorType({DT_FLOAT})", "mask, TensorType({DT_BOOL})"),
        *("y0, TensorType({DT_FLOAT})", "y1, TensorType({DT_BOOL})"),
        *("scale, Float", "axes, ListInt", "name, String", "on, Bool"),
    ]
    assert all("SKELETON" in text and "neither compiled nor run" in text for text in (plugin, proto))
    assert here("custom-op", "skeleton", "operators.py", "--output", "plugin").returncode == 2
    Path("none.py").write_text("x = 1")
    assert "registers no operator with a node" in here("custom-op", "skeleton", "none.py").stderr
    assert "there is no file" in here("custom-op", "skeleton", "missing.py").stderr
