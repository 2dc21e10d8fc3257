"""`graphaudit bisect` finds all culprits of a third party's wrong pass, and its reproducers run by themselves."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphaudit.registry import passes
from tests.cli.conftest import Run
from tests.cli.test_plugins import broken

WRONG = '''
"""Divisions become multiplications; wrong by a little for 2 and 4."""

from graphaudit.rewrite.operator_pass import OperatorPass

class Wrong(OperatorPass):
    name = "rewrite_divisions_wrongly"
    target_ops = frozenset({"aten.div"})

    def replacement(self, program, node, target):
        if not isinstance(node.args[1], float):
            return "no number"
        factor = {2.0: 0.501, 4.0: 0.26}.get(node.args[1], 1 / node.args[1])
        return lambda x, by: x * factor
'''
POLICY = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, obs):
        hidden = torch.relu(self.a(obs) / 0.5) / 3.0
        hidden = hidden / 4.0
        return torch.softmax(self.b(hidden) / 2.0, -1) / 1.0

def build():
    return Net().eval()

def example_inputs():
    return (torch.zeros(2, 6),)

def inputs(seed):
    return (torch.randn(2, 6, generator=torch.Generator().manual_seed(seed)),)

dynamic_shapes = ({0: "batch"},)
"""


def test_every_culprit_with_its_line_and_a_reproducer(
    here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    broken(site, "graphaudit.passes", "sick:Wrong", WRONG)
    monkeypatch.syspath_prepend(site)
    wrong = importlib.import_module("sick").Wrong
    monkeypatch.delitem(sys.modules, "sick")
    monkeypatch.setitem(passes(), wrong.name, wrong)
    Path("policy.py").write_text(POLICY)
    bisect = ("bisect", "policy.py:build", "--target", "onnxruntime", "--inputs", "6")
    done = here(*bisect, "--format", "json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["inputs"] == 6
    assert [c["step"] for c in found["culprits"]] == ["rewrite_divisions_wrongly"] * 2
    assert [[n["place"]["line"] for n in c["nodes"]] for c in found["culprits"]] == [[13], [14]]
    assert all(len(c["inputs"]) == 6 and "instead of" in c["message"] for c in found["culprits"])
    for culprit in found["culprits"]:
        (call,) = [line for line in Path(culprit["reproducer"]).read_text().splitlines() if "torch.ops." in line]
        assert "aten.div.Tensor" in call and "policy.py:1" in call
    env = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, found["culprits"][0]["reproducer"]]
    replay = subprocess.run(command, env=env, capture_output=True, text=True)
    assert replay.returncode == 1 and not replay.stderr, replay.stderr
    assert "+ %mul: float32[2, " in replay.stdout
    assert "rewrite_divisions_wrongly diverges: output" in replay.stdout.splitlines()[-1]
    text = here(*bisect, "--skip", "rewrite_divisions_wrongly")
    assert text.returncode == 0 and text.stdout == "every step holds on 6 inputs\n"
