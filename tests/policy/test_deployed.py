"""Only some of a policy's results deployed: the rest, and what only it needs, is gone."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import graphaudit
from graphaudit.errors import PolicyError
from graphaudit.policy import Policy
from graphaudit.policy.deployed import deployed

OBS = torch.ones(3, 4)


class ActorCritic(nn.Module):
    """Returns action, value, log-probability and nothing, as policies do in training; branches on a tensor."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.actor, self.critic = nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
        self.log_std = nn.Parameter(torch.zeros(2))

    def forward(self, obs: torch.Tensor, scale: float = 2.0) -> dict[str, torch.Tensor | None]:
        mean = self.actor(obs) * scale
        if obs.sum() < 0:
            mean = -mean
        log_prob = torch.distributions.Normal(mean, self.log_std.exp(), validate_args=False).log_prob(mean)
        return {"action": mean.tanh(), "hidden": None, "value": self.critic(obs), "log_prob": log_prob.sum(-1)}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deployed") / "bundle"
    report = graphaudit.rewrite(ActorCritic(), (OBS,), target="onnxruntime", output=folder, count=8, outputs=["action"])
    return folder, report


def test_the_value_head_is_gone_and_the_certificate_says_so(bundle):
    folder, report = bundle
    assert report.fit["onnxruntime"]
    said = "not deployed, and cut away with all that only they need: the outputs value, log_prob"
    assert said in report.certificate.conditions
    parts = [c.partition(": ")[2] for c in report.certificate.conditions if c.startswith("left out")]
    assert parts == ["critic (385 parameters)"]  # the mean is broadcast against log_std, so that its shape matters
    model = onnx.load(folder / "model.onnx")
    assert not any("critic" in t.name or 64 in t.dims for t in model.graph.initializer)
    assert [o.name for o in model.graph.output] == ["action"]
    assert [i.name for i in model.graph.input] == ["obs"]


def test_the_deployed_policy_gives_the_action(bundle):
    for obs in (OBS, -OBS):
        got = graphaudit.load(bundle[0])(obs.numpy())
        assert got.keys() == {"action"}
        np.testing.assert_allclose(got["action"], ActorCritic()(obs)["action"].detach().numpy(), rtol=1e-5)


def test_positions_and_all_of_them():
    policy = Policy("p", ActorCritic(), (OBS,))
    both = deployed(policy, ["2", "action"])
    assert [slot.name for slot in both.interface.outputs] == ["action", "log_prob"]
    assert both.cut == ("value",)
    assert [slot.name for slot in both.interface.inputs] == ["obs"]
    assert deployed(policy, ["0", "1", "2"]) is policy


def test_an_unknown_output():
    with pytest.raises(PolicyError, match="no output 'acton'") as caught:
        deployed(Policy("p", ActorCritic(), (OBS,)), ["acton"])
    assert "'action'" in caught.value.remedy and "log_prob" in caught.value.remedy


class Recurrent(nn.Module):
    """Keeps its state, and has a critic that reads it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell, self.actor, self.critic = nn.GRUCell(4, 8), nn.Linear(8, 2), nn.Linear(8, 1)
        self.register_buffer("h", torch.zeros(3, 8))

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.h = self.cell(obs, self.h)
        return self.actor(self.h), self.critic(self.h)


def test_a_policy_with_state(tmp_path):
    report = graphaudit.rewrite(
        Recurrent(), (OBS,), target="onnxruntime", output=tmp_path / "bundle", count=4, outputs=["0"]
    )
    assert report.fit["onnxruntime"], report.statement
    eager, deployed_policy = Recurrent(), graphaudit.load(tmp_path / "bundle")
    for _ in range(3):
        got = deployed_policy(OBS.numpy())
        np.testing.assert_allclose(got["output_0"], eager(OBS)[0].detach().numpy(), rtol=1e-5, atol=1e-6)
