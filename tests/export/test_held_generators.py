"""Policies that hold generators of their own: the bundle draws on from where each stood when it was handed over."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch
from torch import nn

import graphaudit
from graphaudit.errors import BundleError, GuardError

OBS = torch.tensor([[0.3, -1.2, 2.0, 0.1]])
RNG = np.random.RandomState(11)  # a generator among the globals of the policy's file


class Exploration:
    """Ornstein–Uhlenbeck noise, an object that is no module."""

    def __init__(self):
        self.rngs = [np.random.default_rng(4)]
        self.x = torch.zeros(6)

    def __call__(self):
        self.x = 0.85 * self.x + 0.2 * torch.as_tensor(self.rngs[0].standard_normal(6), dtype=torch.float32)
        return self.x


class Holder(nn.Module):
    """Draws from a generator of every kind, of which none is where its seed puts it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 6))
        self.torch = torch.Generator().manual_seed(3)
        torch.randn(3, generator=self.torch)
        self.python = random.Random(5)
        self.python.random()
        self.noise = Exploration()

    def forward(self, obs):
        logits = self.body(obs) + torch.randn(1, 6, generator=self.torch) * self.python.uniform(0.5, 2.0)
        logits = logits + self.noise() + float(RNG.normal()) + self.python.choice([0.0, 1.0, 2.0])
        action = torch.multinomial(logits.softmax(-1), 1, generator=self.torch)
        return logits, action, torch.rand(2), torch.empty(1, 3).exponential_(generator=self.torch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    RNG.seed(11)
    module = Holder().eval()
    before = [module.torch.get_state(), module.python.getstate(), RNG.get_state()[2]]
    report = graphaudit.rewrite(
        module, (OBS,), target="onnxruntime", output=tmp_path_factory.mktemp("held") / "b", count=8
    )
    assert report.bundle, report.statement
    assert torch.equal(before[0], module.torch.get_state()), "the user's generator has moved"
    assert before[1:] == [module.python.getstate(), RNG.get_state()[2]]
    fixed = {f.name: f.fixed_by for f in report.findings if f.severity == "error" and f.name != "python-state-mutation"}
    names = ("random-op", "generator-object", "python-random", "numpy-in-forward")
    assert fixed == dict.fromkeys(names, "hoist_noise")
    return report.bundle


def both(module, policy, steps=5):
    with torch.no_grad():
        for step in range(steps):
            for eager, got in zip(module(OBS + step), policy(OBS + step), strict=True):
                torch.testing.assert_close(got, eager, rtol=1e-5, atol=1e-5)


def test_held_generators_replay_from_call_to_call(folder):
    RNG.seed(11)
    policy = graphaudit.load(folder)
    assert policy.manifest.replay == "exact"
    kinds = {g.name: g.kind for g in policy.manifest.generators}
    rng = f"{__name__.rpartition('.')[2]}.RNG"
    assert kinds == {"self.torch": "torch", "self.python": "python", "self.noise.rngs[0]": "numpy", rng: "numpy-legacy"}
    module = Holder().eval()
    torch.manual_seed(9)
    policy.seed(9)
    both(module, policy)
    assert graphaudit.verify(folder).ok


def test_a_global_seed_puts_them_back_and_their_own_starts_them(folder):
    policy = graphaudit.load(folder)
    first = [t.clone() for t in policy(OBS)]
    policy(OBS)
    policy.reset()
    policy.seed(policy.manifest.seed)
    assert all(torch.equal(a, b) for a, b in zip(first, policy(OBS)))

    module = Holder().eval()
    policy.reset()
    policy.seed(2), torch.manual_seed(2)
    policy.seed(21, generator="self.torch"), module.torch.manual_seed(21)
    policy.seed(22, generator="self.python"), module.python.seed(22)
    policy.seed(23, generator="self.noise.rngs[0]")
    module.noise.rngs[0] = np.random.default_rng(23)
    RNG.seed(24), policy.seed(24, generator=f"{__name__.rpartition('.')[2]}.RNG")
    both(module, policy)
    with pytest.raises(GuardError, match=r"there is no generator 'self.rng' here; the noise is drawn from self"):
        policy.seed(0, generator="self.rng")


def test_their_state_is_saved_and_restored(folder):
    one, other = graphaudit.load(folder), graphaudit.load(folder)
    one(OBS)
    other.state = json.loads(json.dumps(one.state))
    assert all(torch.equal(a, b) for a, b in zip(one(OBS), other(OBS)))


def test_a_state_that_is_none_is_named(folder, tmp_path):
    import shutil

    broken = tmp_path / "b"
    shutil.copytree(folder, broken)
    manifest = json.loads((broken / "manifest.json").read_text())
    manifest["generators"][0]["state"] = {"key": [1]}
    (broken / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match=r"does not say where self\.torch begins"):
        graphaudit.load(broken)


class Unlisted(nn.Module):
    """Draws what no noise input replays."""

    def __init__(self, draw):
        super().__init__()
        self.rng = np.random.default_rng(3)
        self.draw = draw

    def forward(self, obs):
        return obs * float(self.draw(self.rng))


@pytest.mark.parametrize(
    ("draw", "reason"),
    [
        (lambda rng: rng.gamma(2.0), "gamma of self.rng is none of the draws"),
        (lambda rng: rng.random(dtype=np.float32), "another dtype than float64"),
    ],
)
def test_what_a_held_generator_draws_otherwise_is_refused_at_its_line(draw, reason):
    report = graphaudit.rewrite(Unlisted(draw).eval(), (OBS,), target="onnxruntime", count=4)
    assert report.bundle is None
    said = [f for f in report.findings if reason in f.message]
    assert said and all(f.file == __file__ and f.severity == "error" for f in said)
