"""Policies that sample, from module to bundle and back: the same seed gives the same actions."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical, Normal

import graphaudit
from graphaudit.capture import capture
from graphaudit.equivalence.inputs import collect
from graphaudit.equivalence.reference import Reference
from graphaudit.errors import BundleError, GuardError
from graphaudit.policy import Policy

OBS = torch.tensor([[0.3, -1.2, 2.0, 0.1]])


class Sampler(nn.Module):
    """A body with four inputs; each policy draws in its own way."""

    def __init__(self, outputs: int = 6) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, outputs))
        self.log_std = nn.Parameter(torch.full((outputs,), -0.5))


class Gaussian(Sampler):
    def forward(self, obs):
        policy = Normal(self.body(obs), self.log_std.exp())
        action = policy.sample()
        return action, policy.log_prob(action).sum(-1)


class Discrete(Sampler):
    def forward(self, obs):
        return Categorical(logits=self.body(obs)).sample()


class Squashed(Sampler):
    """As the actor of SAC."""

    def forward(self, obs):
        mean, log_std = self.body(obs).chunk(2, -1)
        return torch.tanh(Normal(mean, log_std.clamp(-5, 2).exp()).rsample())


class MonteCarloDropout(Sampler):
    def forward(self, obs):
        return self.body(F.dropout(obs, 0.3, training=True))


class Diffusion(Sampler):
    """Denoises 20 numbers in four steps, with a draw in each but the last."""

    def __init__(self) -> None:
        super().__init__(20)
        self.denoise = nn.Linear(40, 20)

    def forward(self, obs):
        context = self.body(obs)
        x = torch.randn(obs.shape[0], 20)
        for step in range(4):
            x = 0.8 * x - 0.3 * torch.tanh(self.denoise(torch.cat([x, context], -1)))
            if step < 3:
                x = x + 0.1 * torch.randn_like(x)
        return x


POLICIES = [Gaussian, Discrete, Squashed, MonteCarloDropout, Diffusion]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Bundles by class, made once, with a dynamic batch."""
    folder = tmp_path_factory.mktemp("noise")
    made = {}

    def bundle(cls):
        if cls not in made:
            target = folder / cls.__name__
            module = cls().eval()
            graphaudit.rewrite(
                module, (OBS,), target="onnxruntime", output=target, count=24, dynamic_shapes=[{0: "batch"}]
            )
            made[cls] = module, target
        return made[cls]

    return bundle


def observations(steps, rows=1):
    return torch.randn(steps, rows, 4, generator=torch.Generator().manual_seed(1)).unbind()


def flat(result):
    return [torch.as_tensor(r) for r in (result if isinstance(result, tuple) else (result,))]


def agree(wanted, got):
    for one, other in zip(flat(wanted), flat(got), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-5 if one.is_floating_point() else 0)


@pytest.mark.parametrize("cls", POLICIES)
def test_a_hundred_steps_from_one_seed(bundles, cls):
    module, folder = bundles(cls)
    policy = graphaudit.load(folder)
    for rows in (1, 3):
        torch.manual_seed(7)
        policy.seed(7)
        with torch.no_grad():
            for obs in observations(100, rows):
                agree(module(obs), policy(obs))


@pytest.mark.parametrize("cls", POLICIES)
def test_the_golden_samples_keep_their_noise(bundles, cls):
    check = graphaudit.verify(bundles(cls)[1])
    assert check.ok
    assert check.samples > 1


def test_the_manifest_says_how_the_noise_is_drawn(bundles):
    manifest = json.loads((bundles(Diffusion)[1] / "manifest.json").read_text())
    noise = [i for i in manifest["inputs"] if i["role"] == "noise"]
    assert manifest["replay"] == "exact"
    assert [n["draw"] for n in noise] == [0, 1, 2, 3]
    assert noise[0] == {
        "name": "noise_0",
        "role": "noise",
        "dtype": "float32",
        "shape": ["batch", 20],
        "distribution": "normal",
        "parameters": {},
        "draw": 0,
    }
    certificate = json.loads((bundles(Diffusion)[1] / "certificate.json").read_text())
    assert certificate["claim"] == "equivalent given noise"


def test_the_findings_say_what_became_of_the_draw(bundles):
    report = json.loads((bundles(Discrete)[1] / "report.json").read_text())
    draws = [f for f in report["findings"] if f["name"] == "random-op"]
    assert [f["fixed_by"] for f in draws] == ["hoist_noise"]


def test_noise_may_be_given(bundles):
    policy = graphaudit.load(bundles(Discrete)[1])
    noise = np.array([[1.0, 1.0, 1e-9, 1.0, 1.0, 1.0]], dtype=np.float32)
    before = policy.state
    assert policy(OBS, noise={"noise_0": noise}).tolist() == [2]  # the category whose clock rings first
    assert policy.state == before
    with pytest.raises(GuardError, match=r"noise noise_0 is float32 of shape \[6\]; it is float32 of shape \[1, 6\]"):
        policy(OBS, noise={"noise_0": noise[0]})
    with pytest.raises(GuardError, match="noise has u; it takes noise_0"):
        policy(OBS, noise={"u": noise})


def test_an_episode_goes_on_from_a_saved_state(bundles):
    first, second = (graphaudit.load(bundles(Gaussian)[1]) for _ in range(2))
    first.seed(3)
    first(OBS)
    second.state = json.loads(json.dumps(first.state))
    agree(first(OBS), second(OBS))


@pytest.mark.parametrize("cls", [Gaussian, Diffusion])
def test_a_state_saved_in_the_middle_goes_on_at_another_batch_size_as_eager_does(bundles, cls):
    module, folder = bundles(cls)
    policy, other = graphaudit.load(folder), graphaudit.load(folder)
    torch.manual_seed(3), policy.seed(3)
    with torch.no_grad():
        for rows in (1, 3, 1):
            agree(module(OBS.repeat(rows, 1)), policy(OBS.repeat(rows, 1)))
        saved = json.loads(json.dumps(policy.state))
        policy(OBS.repeat(7, 1))
        other.state = saved
        for rows in (2, 5):
            agree(module(OBS.repeat(rows, 1)), other(OBS.repeat(rows, 1)))


def test_a_bundle_begins_at_its_own_seed(bundles):
    one, other = (graphaudit.load(bundles(Gaussian)[1]) for _ in range(2))
    agree(one(OBS), other(OBS))
    assert not torch.equal(one(OBS)[0], one(OBS)[0])


def test_sampling_needs_no_torch(bundles):
    code = (
        "import sys, numpy, graphaudit; "
        f"p = graphaudit.load({str(bundles(Gaussian)[1])!r}); p(numpy.ones((1, 4), numpy.float32)); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


class SeededInside(Sampler):
    def forward(self, obs):
        return self.body(obs) + torch.randn(1, 6, generator=torch.Generator().manual_seed(7))


def test_draws_of_a_generator_seeded_inside_are_constants(tmp_path):
    module = SeededInside().eval()
    report = graphaudit.rewrite(module, (OBS,), target="onnxruntime", output=tmp_path / "b", count=8)
    policy = graphaudit.load(tmp_path / "b")
    with torch.no_grad():
        agree(module(OBS), policy(OBS))
    assert [i.role for i in policy.manifest.inputs] == ["argument"]
    assert policy.manifest.replay is None
    assert [(f.severity, f.fixed_by) for f in report.findings if f.name == "generator-object"] == [("warning", None)]


class Rejecting(Sampler):
    def forward(self, obs):
        return torch.distributions.Beta(self.body(obs).exp(), torch.ones(6)).sample()


def test_what_cannot_be_replayed_is_refused_with_its_line():
    report = graphaudit.rewrite(Rejecting().eval(), (OBS,), target="onnxruntime", count=8)
    assert not report.fit["onnxruntime"]
    errors = [f for f in report.findings if f.blocks and f.name == "random-op"]
    assert errors
    assert all(f.line and f.file == __file__ for f in errors)
    assert any("mean or its mode" in (f.remedy or "") for f in errors)


class Mixed(Sampler):
    """Draws from all three global generators."""

    def forward(self, obs):
        noise = torch.as_tensor(np.random.randn(1, 6), dtype=torch.float32)
        return self.body(obs) * random.uniform(0.5, 1.5) + 0.1 * noise + 0.1 * torch.rand(1, 6) + random.gauss(0, 1)


def test_python_and_numpy_replay_from_their_own_seeds(tmp_path):
    module = Mixed().eval()
    report = graphaudit.rewrite(module, (OBS,), target="onnxruntime", output=tmp_path / "b", count=8)
    policy = graphaudit.load(report.bundle)
    noise = [i for i in policy.manifest.inputs if i.role == "noise"]
    assert [n.generator for n in noise] == ["numpy-legacy", "python", None, "python"]
    assert policy.manifest.replay == "distribution"  # as far as torch.manual_seed goes
    assert graphaudit.verify(report.bundle).ok
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    policy.seed(5)
    with torch.no_grad():
        for obs in observations(20):
            agree(module(obs), policy(obs))
    other = graphaudit.load(report.bundle)
    other.state = json.loads(json.dumps(policy.state))
    agree(policy(OBS), other(OBS))
    fixed = {f.name: f.fixed_by for f in report.findings if f.severity == "error"}
    assert fixed == dict.fromkeys(("random-op", "python-random", "numpy-in-forward"), "hoist_noise")


class EpsilonGreedy(Sampler):
    """Explores with Python's coin; the second draw is made on one side only."""

    def forward(self, obs):
        if random.random() < 0.4:
            return torch.tensor([random.randrange(6)])
        return self.body(obs).argmax(-1)


class Hesitant(Sampler):
    """Draws on either side of a branch, once more behind one of them, and after it."""

    def forward(self, obs):
        action = self.body(obs)
        if action[0, 0] > torch.randn(()):
            action = action + torch.randn(1, 6)
            if torch.rand(()) < 0.5:
                action = action * torch.rand(1, 6)
        else:
            action = action - torch.rand(1, 6)
        return action, torch.multinomial(action.softmax(-1), 1)


@pytest.mark.parametrize(("cls", "replay"), [(EpsilonGreedy, "distribution"), (Hesitant, "exact")])
def test_a_draw_on_one_side_is_taken_back_where_the_policy_does_not_make_it(tmp_path, cls, replay):
    module = cls().eval()
    report = graphaudit.rewrite(module, (OBS,), target="onnxruntime", output=tmp_path / "b", count=8)
    policy = graphaudit.load(report.bundle)
    assert policy.manifest.replay == replay  # Python's coin follows no seed of PyTorch's
    assert graphaudit.verify(report.bundle).ok
    notes = [f for f in report.findings if f.name == "draw-on-one-side"]
    assert notes and all((f.severity, f.file) == ("note", __file__) for f in notes)
    assert not any("distribution" in v.note for v in report.certificate.verdicts)
    drawn = {o.name for o in policy.manifest.outputs if o.role == "drawn"}
    assert drawn == {i.when for i in policy.manifest.inputs if i.when is not None}
    random.seed(5), torch.manual_seed(5), policy.seed(5)
    with torch.no_grad():
        for obs in observations(40):
            agree(module(obs), policy(obs))

    path = tmp_path / "b" / "manifest.json"
    path.write_text(path.read_text().replace('"role": "drawn"', '"role": "result"'))
    with pytest.raises(BundleError, match="names no output that says which draws are made"):
        graphaudit.load(report.bundle)


def test_a_wrong_graph_does_not_pass_for_the_distribution():
    module = EpsilonGreedy().eval()
    policy = Policy("greedy", module, (OBS,), {})
    reference = Reference(policy, collect(policy, 4, 0))
    reference.replays = False
    program = capture(policy).program
    assert reference.check("capture", program.runner()).holds
    verdict = reference.check("greedy", lambda inputs: [module.body(inputs[0]).argmax(-1)])
    assert "of another distribution" in verdict.note and not verdict.holds
