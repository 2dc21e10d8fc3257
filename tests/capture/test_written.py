"""State that no call so far has changed, and that a call may change: an emergency stop, a gain that changes late."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import pytest
import torch
from torch import nn

import graphaudit
from graphaudit.capture import captured_steps
from tests.stateful import OBS, Linear, policy_of

SOURCE = Path(__file__).read_text().splitlines()
CALLS = [OBS, 500 * OBS, 0.5 * OBS, OBS]


class Stop(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.stopped = False

    def forward(self, obs):
        if obs.abs().max() > 100:
            self.stopped = True
        action = self.layer(obs)
        return torch.zeros_like(action) if self.stopped else action


class StopInPlace(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.ones(1)

    def forward(self, obs):
        if obs.abs().max() > 100:
            self.scale.zero_()
        return self.layer(obs) * self.scale


class StopInBuffer(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(1))

    def forward(self, obs):
        if obs.abs().max() > 100:
            self.scale.fill_(0.0)
        return self.layer(obs) * self.scale


class Late(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.t = 0
        self.memory = {"gain": 1.0}

    def forward(self, obs):
        self.t += 1
        if self.t == 60:
            self.memory["gain"] = 3.0
        return self.layer(obs) * self.memory["gain"]


class Mode(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.mode = "run"

    def forward(self, obs):
        if obs.abs().max() > 100:
            self.mode = "stop"
        return self.layer(obs) * (0.0 if self.mode == "stop" else 1.0)


class Machine(Linear):
    """A mode that tensors and a counter decide, one value of it in no call so far."""

    def __init__(self) -> None:
        super().__init__()
        self.mode, self.gear = "search", Gear.LOW
        self.t = 0

    def forward(self, obs):
        ahead = obs.mean()
        if self.mode == "search" and ahead > 0.2:
            self.mode = "track"
        elif self.mode == "track" and ahead < -10:
            self.mode = "stop"
        action = self.layer(obs) * {"search": 0.5, "track": 2.0, "stop": 0.0}[self.mode]
        if self.gear is Gear.HIGH:
            action = action + 1
        self.t += 1
        self.gear = Gear.LOW if self.t % 4 < 2 else Gear.HIGH
        return action


class Gear(Enum):
    LOW = "low"
    HIGH = "high"


class Kept(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.kept = "all"

    def forward(self, obs):
        action = self.layer(obs)
        if obs.abs().max() > 100:
            self.kept = action
        return action


class Journal(Linear):
    """A text without an end."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def forward(self, obs):
        self.text += "step "
        return self.layer(obs)


class Logged(Linear):
    """What is kept and never read again is no state, seen or unseen."""

    def __init__(self) -> None:
        super().__init__()
        self.last = None
        self.worst = torch.zeros(1, 2)

    def forward(self, obs):
        self.last = self.layer(obs)
        if obs.abs().max() > 100:
            self.worst = self.last
        return self.last


def played(run, state, calls):
    actions = []
    for obs in calls:
        action, *state = run([obs, *state])
        actions.append(action)
    return actions


@pytest.mark.parametrize(
    ("module", "paths", "calls"),
    [
        (Stop, {"stopped"}, CALLS),
        (StopInPlace, {"scale"}, CALLS),
        (StopInBuffer, {"scale"}, CALLS),
        (Late, {"t", "memory['gain']"}, [OBS] * 61),
        (Mode, {"mode"}, CALLS),
        (Machine, {"mode", "gear", "t"}, [OBS, -OBS, OBS, -90 * OBS, OBS, OBS]),
    ],
)
def test_what_a_rare_condition_writes_is_state(module: type[nn.Module], paths: set[str], calls) -> None:
    policy = policy_of(module())
    made, captured = captured_steps(policy)
    assert made is not None and captured.program is not None
    assert {s.path for s in made.interface.state} == paths
    initial = [s.initial for s in made.interface.state]
    wanted = policy.working.steps([(obs,) for obs in calls])
    for one, other in zip(played(captured.program.lift_state().runner(), initial, calls), wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("module", [Logged, Journal])
def test_what_no_result_reads_is_no_state(module: type[nn.Module]) -> None:
    made, captured = captured_steps(policy_of(module()))
    assert made is None and captured.program is not None


def test_the_finding_names_the_line() -> None:
    report = graphaudit.rewrite(policy_of(Stop()), target="onnxruntime", count=8)
    (found,) = [f for f in report.findings if f.name == "python-state-mutation"]
    assert "self.stopped = True" in SOURCE[found.line - 1]
    assert found.fixed_by == "lift_state" and report.fit == {"onnxruntime": True}


def test_what_is_no_text_and_tensors_decide_is_refused_at_its_line() -> None:
    _, captured = captured_steps(policy_of(Kept()))
    assert captured.program is None
    refusal = captured.blockers[-1]
    assert "attribute kept holds one of a tensor and 'all' after the call" in refusal.reason
    assert "self.kept = " in SOURCE[refusal.place.line - 1]
