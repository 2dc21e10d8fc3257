"""Policies that keep state, from module to bundle and back: whole episodes, resets, and episodes that are continued."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import graphaudit
from graphaudit.errors import BundleError, GuardError
from tests.stateful import OBS, FrameStack, Noisy, draw


class Recurrent(nn.Module):
    """A batch of GRUs, each with its own hidden state."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rnn = nn.GRU(4, 6)
        self.head = nn.Linear(6, 2)
        self.hidden = None

    def forward(self, obs):
        if self.hidden is None:
            self.hidden = torch.zeros(1, obs.shape[0], 6)
        y, self.hidden = self.rnn(obs.unsqueeze(0), self.hidden)
        return self.head(y.squeeze(0))


def rows(seed: int, count: int = 3) -> torch.Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """name: (report, folder)"""
    folder = tmp_path_factory.mktemp("state")
    recipes = {
        "recurrent": (Recurrent(), (rows(0),), lambda seed: (rows(seed, 1 + seed % 3),), ({0: "batch"},)),
        "noisy": (Noisy(), (OBS,), draw, None),
        "stack": (FrameStack(), (OBS,), draw, None),
    }
    found = {}
    for name, (module, args, inputs, shapes) in recipes.items():
        report = graphaudit.rewrite(
            module.eval(), args, target="onnxruntime", output=folder / name, inputs=inputs, dynamic_shapes=shapes
        )
        assert report.bundle, report.statement
        found[name] = report, folder / name
    return found


def eager(module, calls):
    with torch.no_grad():
        return [module.eval()(obs) for obs in calls]


def test_the_certificate_says_given_state_and_names_whole_episodes(made) -> None:
    for report, _ in made.values():
        assert report.certificate.claim == "equivalent given state"
        episodes = next(v for v in report.certificate.verdicts if v.step == "episodes")
        assert episodes.claim == "equivalent given state" and episodes.inputs == 4
        lifted = next(row for row in report.passes if row.name == "lift_state")
        assert lifted.changed and lifted.verdict.holds
        assert {f.fixed_by for f in report.findings if f.name == "python-state-mutation"} == {"lift_state"}


@pytest.mark.parametrize(("name", "module"), [("recurrent", Recurrent), ("stack", FrameStack)])
def test_an_episode_of_the_bundle_is_the_module_s(made, name, module) -> None:
    policy = graphaudit.load(made[name][1])
    calls = [rows(seed, 1 if name == "stack" else 3) for seed in range(40)]
    for _ in range(2):
        for obs, wanted in zip(calls, eager(module(), calls)):
            torch.testing.assert_close(policy(obs), wanted, atol=1e-5, rtol=0)
        policy.reset()


def test_a_seed_replays_an_episode_of_noise_and_state(made) -> None:
    policy = graphaudit.load(made["noisy"][1])
    calls = [rows(seed, 1) for seed in range(30)]
    module = Noisy()
    torch.manual_seed(7)
    wanted = eager(module, calls)
    policy.seed(7)
    for obs, action in zip(calls, wanted):
        torch.testing.assert_close(policy(obs), action, atol=1e-5, rtol=0)


def test_rows_of_the_batch_are_reset_alone(made) -> None:
    """Environment 1 starts over after three steps; the others go on."""
    policy = graphaudit.load(made["recurrent"][1])
    before, after = [rows(seed) for seed in range(3)], [rows(seed) for seed in range(3, 6)]
    through = eager(Recurrent(), before + after)[3:]
    anew = eager(Recurrent(), after)
    for obs in before:
        policy(obs)
    policy.reset(rows=[1])
    for obs, going_on, started in zip(after, through, anew):
        action = policy(obs)
        torch.testing.assert_close(action[[0, 2]], going_on[[0, 2]], atol=1e-5, rtol=0)
        torch.testing.assert_close(action[1], started[1], atol=1e-5, rtol=0)
    with pytest.raises(GuardError, match="there is no row 3: state hidden has 3"):
        policy.reset(rows=[3])


def test_state_that_is_one_for_all_rows_cannot_be_reset_by_row(made) -> None:
    policy = graphaudit.load(made["stack"][1])
    policy(OBS)
    policy.reset(rows=[0])  # the only row there is
    torch.testing.assert_close(policy(OBS), eager(FrameStack(), [OBS])[0], atol=1e-5, rtol=0)
    with pytest.raises(GuardError, match="is one for all rows of the batch"):
        policy.reset(rows=[0, 1])


def test_an_episode_goes_on_from_a_state_that_json_carried(made) -> None:
    for name in ("noisy", "recurrent"):
        first, second = graphaudit.load(made[name][1]), graphaudit.load(made[name][1])
        calls = [rows(seed, 1) for seed in range(8)]
        for obs in calls[:4]:
            first(obs)
        second.state = json.loads(json.dumps(first.state))
        for obs in calls[4:]:
            assert torch.equal(first(obs), second(obs))


def test_an_episode_has_one_batch_size(made) -> None:
    policy = graphaudit.load(made["recurrent"][1])
    policy(rows(0, 3))
    with pytest.raises(GuardError, match="batch is 2, and the episode has 3"):
        policy(rows(0, 2))
    policy.reset()
    assert policy(rows(0, 2)).shape == (2, 2)


def test_a_state_that_does_not_fit_is_refused(made) -> None:
    policy = graphaudit.load(made["recurrent"][1])
    with pytest.raises(GuardError, match="state has h; it is hidden"):
        policy.state = policy.state | {"values": {"h": [0.0]}}
    with pytest.raises(GuardError, match=r"state hidden has the shape \(2,\)"):
        policy.state = policy.state | {"values": {"hidden": [0.0, 1.0]}}


def test_the_manifest_names_the_state_and_its_first_value(made) -> None:
    manifest = graphaudit.load(made["stack"][1]).manifest
    state = {i.name: i for i in manifest.inputs if i.role == "state"}
    assert [i.path for i in state.values()] == ["frames[1]", "frames[2]", "calls_made"]
    assert {o.feeds for o in manifest.outputs if o.role == "state"} == set(state)
    with np.load(made["stack"][1] / "state.npz") as first:
        assert all(list(first[i.initial].shape) == i.shape for i in state.values())


def test_golden_steps_are_an_episode_and_are_replayed(made) -> None:
    for _, folder in made.values():
        found = graphaudit.verify(folder)
        assert found.ok and found.samples == 8
        manifest = graphaudit.load(folder).manifest
        states = [o for o in manifest.outputs if o.role == "state"]
        assert {o.name for o in states} <= {o.name for o in found.outputs}
        with np.load(folder / "golden.npz") as golden, np.load(folder / "state.npz") as first:
            for output in states:
                entry = next(i for i in manifest.inputs if i.name == output.feeds)
                same = golden[f"0/in/{entry.name}"], first[entry.initial]
                assert np.array_equal(*same) or entry.shape != list(same[1].shape)


def test_a_wrong_state_is_seen_by_verify(made, tmp_path) -> None:
    """A model whose state output was exchanged gives the right first action, and is found out."""
    import hashlib

    import onnx

    folder = tmp_path / "broken"
    shutil.copytree(made["recurrent"][1], folder)
    model = onnx.load(folder / "model.onnx")
    node = next(n for n in model.graph.node if "hidden_next" in n.output)
    node.output[list(node.output).index("hidden_next")] = "kept"
    model.graph.node.append(onnx.helper.make_node("Mul", ["kept", "kept"], ["hidden_next"]))
    onnx.save(model, folder / "model.onnx")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["model"]["sha256"] = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    found = graphaudit.verify(folder)
    assert not found.ok
    assert {o.name: o.ok for o in found.outputs} == {"output": True, "hidden_next": False}


def test_a_bundle_without_its_first_values_is_refused(made, tmp_path) -> None:
    folder = tmp_path / "lost"
    shutil.copytree(made["stack"][1], folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    for entry in manifest["inputs"]:
        entry.pop("initial", None)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match="does not hold the first value of"):
        graphaudit.load(folder)


def test_stepping_needs_neither_torch_nor_the_policy(made) -> None:
    code = f"""
import sys, numpy as np
from graphaudit.export.load import load
policy = load({str(made["recurrent"][1])!r})
obs = np.ones((2, 4), np.float32)
first, second = policy(obs), policy(obs)
policy.reset()
assert not np.array_equal(first, second) and np.array_equal(policy(obs), first)
assert "torch" not in sys.modules and "tests" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
