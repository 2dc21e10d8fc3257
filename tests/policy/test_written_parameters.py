"""Parameters that forward writes to are state."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import graphaudit
from graphaudit.policy.isolation import private_copy
from tests.stateful import OBS, Linear, draw


class FastWeights(Linear):
    """Hebbian weights beside slow ones."""

    def __init__(self) -> None:
        super().__init__()
        self.fast = nn.Parameter(torch.zeros(4, 2))

    def forward(self, obs):
        y = torch.tanh(self.layer(obs) + obs @ self.fast)
        self.fast.mul_(0.9).add_(0.1 * obs.t() @ y)
        return y


class Decayed(Linear):
    """Written through `.data`, which leaves no trace in the version of a tensor."""

    def forward(self, obs):
        y = self.layer(obs)
        self.layer.weight.data -= 0.01 * torch.outer(y.mean(0), obs.mean(0))
        return y


class Clamped(Linear):
    """Given other data; the same in every call after the first."""

    def forward(self, obs):
        self.layer.weight.data = self.layer.weight.data.clamp(-0.2, 0.2)
        return self.layer(obs)


@pytest.mark.parametrize("module", [FastWeights, Decayed, Clamped])
def test_a_bundle_steps_as_the_module_does(module, tmp_path) -> None:
    policy = graphaudit.Policy(module.__name__, module().eval(), (OBS,), inputs=draw)
    before = {k: v.clone() for k, v in policy.module.state_dict().items()}
    report = graphaudit.rewrite(policy, target="onnxruntime", output=tmp_path / "bundle", count=16)
    assert report.bundle is not None, report.statement
    assert {f.fixed_by for f in report.findings if f.name == "parameter-mutation"} == {"lift_state"}
    assert all(torch.equal(v, before[k]) for k, v in policy.module.state_dict().items())
    deployed, eager = graphaudit.load(report.bundle), module().eval()
    with torch.no_grad():
        for seed in range(5):
            torch.testing.assert_close(torch.as_tensor(deployed(*draw(seed))), eager(*draw(seed)))


class Tied(Linear):
    """One parameter under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.other = nn.Linear(4, 2)
        self.other.weight = self.layer.weight

    def forward(self, obs):
        self.layer.weight.mul_(0.5)
        return self.other(obs)


class Recurrent(nn.Module):
    """Written where the layer holds its weights in a list, too."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(4, 2)

    def forward(self, obs):
        self.rnn.weight_ih_l0.data.mul_(0.9)
        return self.rnn(obs)[0]


@pytest.mark.parametrize("module", [Tied, Recurrent])
def test_what_two_places_hold_is_refused(module, tmp_path) -> None:
    report = graphaudit.rewrite(module().eval(), (OBS,), target="onnxruntime", output=tmp_path / "bundle")
    assert report.bundle is None and "parameter-mutation" in {f.name for f in report.findings if f.blocks}


def test_a_copy_forgets_what_was_written_through_data() -> None:
    working = private_copy(Decayed().eval())
    assert torch.equal(working(OBS), working(OBS))
