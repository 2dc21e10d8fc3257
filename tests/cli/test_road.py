"""The whole road from the command line: audit, rewrite, verify, on real policies of each kind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from tests.cli.conftest import WALKER, Run

BRANCH = """
class Stopping(Net):
    def forward(self, obs):
        if obs.max() > 1:
            return torch.zeros(2)  # of another shape, which no mask can select
        return self.layer(obs)

class Softmax(Net):
    def forward(self, obs):
        w = torch.exp(obs) / torch.exp(obs).sum(-1, keepdim=True)
        return self.layer(w)
"""


@pytest.fixture
def walker(here: Run, tmp_path: Path) -> Path:
    """`walker.py` with a policy that cannot be exported and one that needs a repair."""
    file = tmp_path / "walker.py"
    file.write_text(WALKER + BRANCH)
    return file


def test_a_policy_becomes_a_bundle_that_verifies(here: Run, walker: Path) -> None:
    done = here("rewrite", "walker.py:Softmax", "--target", "onnxruntime", "--output", "out", "--inputs", "32")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("policy    walker.py:Softmax   8 parameters · 1 input · ")
    assert any(line.startswith("rewrite_softmax ") and "1 node" in line for line in lines)
    assert "w = torch.exp(obs) / torch.exp(obs).sum(-1, keepdim=True)" in done.stdout
    assert "fixed by rewrite_softmax" in done.stdout
    assert lines[-1].startswith("out/   fit for onnxruntime: equivalent")
    assert here("verify", "out").returncode == 0
    document = json.loads(here("verify", "out", "--format", "json").stdout)
    assert document["ok"] is True
    assert document["samples"] > 0


def test_the_bundle_gives_the_policys_outputs(here: Run, walker: Path) -> None:
    done = here("rewrite", "walker.py:build", "--target", "onnxruntime", "--output", "out", "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["fit"] == {"onnxruntime": True}
    assert Path(report["bundle"]).name == "out"
    manifest = json.loads((walker.parent / "out" / "manifest.json").read_text())
    session = onnxruntime.InferenceSession(str(walker.parent / "out" / manifest["model"]["file"]))
    namespace: dict[str, object] = {}
    exec(compile(walker.read_text(), "walker.py", "exec"), namespace)
    module = namespace["build"]()  # type: ignore[operator]
    obs = torch.randn(5, 3)
    (got,) = session.run(None, {manifest["inputs"][0]["name"]: obs.numpy()})
    np.testing.assert_allclose(got, module(obs).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_another_process_gives_the_same_bytes(here: Run, run: Run, walker: Path) -> None:
    walker.write_text(WALKER + BRANCH)
    for command, folder in ((here, "a"), (run, "b")):
        assert command("rewrite", "walker.py:build", "--target", "onnxruntime", "--output", folder).returncode == 0
    assert (walker.parent / "a" / "model.onnx").read_bytes() == (walker.parent / "b" / "model.onnx").read_bytes()


def test_the_answer_no_is_status_1_and_leaves_nothing(here: Run, walker: Path) -> None:
    done = here("rewrite", "walker.py:Stopping", "--target", "onnxruntime", "--output", "out", "--format", "json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["bundle"] is None
    (found,) = [f for f in report["findings"] if f["name"] == "data-dependent-branch"]
    assert found["file"] == str(walker)
    assert walker.read_text().splitlines()[found["line"] - 1] == "        if obs.max() > 1:"
    assert not (walker.parent / "out").exists()


def test_debug_adds_what_torch_export_said(here: Run, walker: Path) -> None:
    plain = here("audit", "walker.py:Stopping")
    debug = here("audit", "walker.py:Stopping", "--debug")
    assert plain.stderr == ""
    assert "debug: graphaudit.capture.frontend: torch.export failed\nTraceback" in debug.stderr
    assert "torch.export strict failed" in debug.stderr
    assert debug.stdout == plain.stdout


def test_a_finding_in_a_log_is_one_line_unless_columns_says_otherwise(
    here: Run, walker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = ("audit", "walker.py:Softmax", "--target", "ascend-310p")
    monkeypatch.delenv("COLUMNS", raising=False)
    (line,) = [line for line in here(*audit).stdout.splitlines() if line.startswith("warning[GA301]")]
    assert len(line) > 120
    assert line.endswith("NaN")
    monkeypatch.setenv("COLUMNS", "60")
    lines = here(*audit).stdout.splitlines()
    assert max(map(len, lines)) <= 60
    assert " ".join(map(str.strip, lines)).count(line) == 1


@pytest.mark.parametrize(
    ("policy", "fail_on", "status"),
    [
        ("Stopping", "error", 1),
        ("Stopping", "never", 0),
        ("Softmax", "error", 0),
        ("Softmax", "warning", 1),
        ("build", "warning", 0),
    ],
)
def test_fail_on_decides_the_status_of_an_audit(
    here: Run, walker: Path, policy: str, fail_on: str, status: int
) -> None:
    done = here("audit", f"walker.py:{policy}", "--target", "onnxruntime", "--fail-on", fail_on)
    assert done.returncode == status, done.stdout
    assert done.stderr == ""


def test_an_audit_takes_several_targets(here: Run, walker: Path) -> None:
    done = here("audit", "walker.py:build", "--target", "onnx", "--target", "ascend-310p", "--format=json")
    report = json.loads(done.stdout)
    assert report["targets"] == ["onnx", "ascend-310p"]
    assert set(report["fit"]) == {"onnx", "ascend-310p"}


def test_the_onnx_file_of_a_bundle_can_be_audited(here: Run, walker: Path) -> None:
    assert here("rewrite", "walker.py:build", "--target", "onnxruntime", "--output", "out").returncode == 0
    done = here("audit", "out/model.onnx", "--target", "onnxruntime")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("policy    out/model.onnx   8 parameters · 1 input · ")


def test_an_exported_program_becomes_a_bundle(here: Run, walker: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh()).eval()
    shapes = ({0: torch.export.Dim("batch")},)
    torch.export.save(torch.export.export(module, (torch.zeros(2, 3),), dynamic_shapes=shapes), walker.parent / "p.pt2")
    done = here("rewrite", "p.pt2", "--target", "onnxruntime", "--output", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert here("verify", "out").returncode == 0


@pytest.mark.zoo
def test_a_stable_baselines3_archive_becomes_a_bundle(here: Run, walker: Path) -> None:
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    model = stable_baselines3.PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu", n_steps=16, batch_size=16)
    model.save(walker.parent / "cartpole.zip")
    done = here("rewrite", "cartpole.zip", "--trust", "--target", "onnxruntime", "--output", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    import graphaudit

    act = graphaudit.load(walker.parent / "out")
    obs = model.observation_space.sample()[None].repeat(3, 0)
    np.testing.assert_array_equal(act(obs), model.predict(obs, deterministic=True)[0])
