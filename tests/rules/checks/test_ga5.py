"""Checks of family GA5, state and mode."""

from __future__ import annotations

import torch
from torch import nn

from tests.rules.checks.subjects import audited, event, findings, observed, said

OBS = (torch.ones(1, 4),)


class Counter(nn.Module):
    """Counts its calls in a buffer that nothing reads."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("integral", torch.zeros(1, 4))

    def forward(self, obs):
        self.calls += 1
        return obs * 2


class Integrator(Counter):
    def forward(self, obs):
        self.calls += 1
        self.integral.add_(0.1 * obs)
        return obs + self.integral


def test_a_buffer_is_an_error_only_if_a_result_depends_on_it() -> None:
    assert said(audited(Counter(), OBS), "buffer-mutation") == [("buffer-mutation", "warning")]
    found = {f.message.split()[1]: f.severity for f in findings(audited(Integrator(), OBS), "buffer-mutation")}
    assert found == {"calls": "warning", "integral": "error"}


class Indirect(Counter):
    """The count decides the integral's next value, which decides the result."""

    def forward(self, obs):
        result = obs + self.integral
        self.integral.copy_(self.integral + self.calls)
        self.calls.add_(1)
        return result


def test_state_that_feeds_other_state_is_live() -> None:
    found = findings(audited(Indirect(), OBS), "buffer-mutation")
    assert {f.severity for f in found} == {"error"}


class Attributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = 0
        self.last = None
        self.hidden = torch.zeros(1, 4)

    def forward(self, obs):
        self.last = obs.sum()
        self.t += 1
        return obs * (1 + self.t)


class Logged(Attributes):
    def forward(self, obs):
        self.last = obs * 2
        return self.last + 1


def test_attributes() -> None:
    found = {f.message.split()[1]: f.severity for f in findings(audited(Attributes(), OBS), "python-state-mutation")}
    assert found == {"t": "error", "last": "warning"}
    # Written before it is read in every call: nothing carries over.
    assert said(audited(Logged(), OBS), "python-state-mutation") == [("python-state-mutation", "warning")]


class Split(Attributes):
    """Writes in one function and reads in another, within one call."""

    def update(self, obs):
        self.last = obs * 2

    def forward(self, obs):
        self.update(obs)
        return self.last + 1


class Rare(Attributes):
    """The state decides only after a hundred calls, which no observation sees."""

    def forward(self, obs):
        self.t += 1
        return obs * 0 if self.t > 100 else obs


def test_reading_in_the_same_call_is_no_state_and_a_rare_reading_is() -> None:
    name = "python-state-mutation"
    assert said(audited(Split(), OBS, capturing=False), name) == [(name, "warning")]
    assert said(audited(Rare(), OBS, capturing=False), name) == [(name, "error")]


class Hidden(Attributes):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 4)
        self.h = torch.zeros(1, 4)

    def forward(self, obs):
        self.h = self.cell(obs, self.h)
        return self.h


def test_hidden_state_needs_a_recurrent_layer_or_a_telling_name() -> None:
    name = "recurrent-state-hidden"
    assert said(audited(Hidden(), OBS), name) == [(name, "error")]
    assert said(observed(event("write-attribute", "agent.hidden_state"), between_calls=True), name) == [(name, "error")]
    assert said(observed(event("write-attribute", "c"), between_calls=True), name) == []


class Normaliser(nn.Module):
    def __init__(self, mean: float, var: float):
        super().__init__()
        self.register_buffer("obs_mean", torch.full((4,), mean))
        self.register_buffer("obs_var", torch.full((4,), var))
        self.register_buffer("action_scale", torch.ones(4))
        self.register_buffer("action_bias", torch.zeros(4))
        self.net = nn.Linear(4, 2)

    def forward(self, obs):
        return self.net((obs - self.obs_mean) / torch.sqrt(self.obs_var + 1e-5))


class Updating(Normaliser):
    def forward(self, obs):
        self.obs_mean += 0.1 * (obs.mean(0) - self.obs_mean)
        return super().forward(obs)


def test_default_statistics() -> None:
    name = "normalisation-default-statistics"
    (found,) = findings(audited(Normaliser(0.0, 1.0), OBS, capturing=False), name)
    assert (found.severity, found.node) == ("warning", "obs_mean")
    assert said(audited(Normaliser(0.0, 1.5), OBS, capturing=False), name) == []
    assert said(audited(Normaliser(0.2, 1.0), OBS, capturing=False), name) == []


def test_batch_norm_at_the_input_is_a_warning_and_inside_a_note() -> None:
    name = "normalisation-default-statistics"
    at_input = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    found = findings(audited(at_input, (torch.ones(2, 4),), capturing=False), name)
    assert {f.node: f.severity for f in found} == {"0.running_mean": "warning", "2.running_mean": "note"}


def test_a_normaliser_that_learns_while_it_acts() -> None:
    name = "normaliser-updates-in-inference"
    assert said(audited(Updating(0.1, 2.0), OBS), name) == [(name, "error")]
    assert said(audited(Integrator(), OBS), name) == []


class Gated(Updating):
    def forward(self, obs):
        return Updating.forward(self, obs) if self.training else Normaliser.forward(self, obs)


def test_a_normaliser_that_learns_in_train_mode_alone_is_frozen() -> None:
    name = "normaliser-updates-in-inference"
    (found,) = findings(audited(Gated(0.1, 2.0).train(), OBS, capturing=False), name)
    assert (found.severity, found.node) == ("warning", "obs_mean") and "frozen" in found.message
    assert said(audited(Gated(0.1, 2.0).eval(), OBS, capturing=False), name) == []
    assert said(audited(nn.BatchNorm1d(4).train(), (torch.ones(3, 4),), capturing=False), name) == []


def test_modes() -> None:
    names = ("module-in-train-mode", "batchnorm-batch-statistics", "buffer-mutation")
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    args = (torch.ones(3, 4),)
    train = audited(net.train(), args, capturing=False)
    assert said(train, *names) == [
        ("module-in-train-mode", "warning"),
        ("batchnorm-batch-statistics", "warning"),
        ("buffer-mutation", "note"),
    ]
    assert said(audited(net.eval(), args, capturing=False), *names) == []
    net[1].train()
    (partly,) = findings(audited(net, args, capturing=False), "module-in-train-mode")
    assert "1" in partly.message and "the policy" not in partly.message
    untracked = nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False)).eval()
    assert said(audited(untracked, args, capturing=False), *names) == [("batchnorm-batch-statistics", "warning")]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 6)

    def forward(self, obs, h=None):
        return self.rnn(obs.unsqueeze(0), h)


def test_implicit_state_at_the_line_of_the_call() -> None:
    name = "recurrent-state-implicit"
    (found,) = findings(audited(Recurrent(), OBS, capturing=False), name)
    assert found.severity == "note" and found.file == __file__ and "GRU" in found.message
    assert said(audited(Recurrent(), (OBS[0], torch.zeros(1, 1, 6)), capturing=False), name) == []


class Writes(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, obs):
        y = self.net(obs)
        y[:, 0] = 0.0
        row = y[0]
        row.add_(1.0)
        obs.mul_(2.0)
        return y


def test_writes() -> None:
    subject = audited(Writes(), OBS)
    assert said(subject, "input-mutation") == [("input-mutation", "warning")]
    assert len(said(subject, "in-place-write")) == 3 and {s for _, s in said(subject, "in-place-write")} == {"note"}
    (view,) = findings(subject, "view-aliasing")
    assert view.message.startswith("this write goes through a view")


class Clips(Writes):
    def forward(self, obs):
        self.net.weight.data.clamp_(-0.1, 0.1)
        return self.net(obs)


def test_parameters_that_are_written() -> None:
    found = findings(audited(Clips(), OBS, capturing=False), "parameter-mutation")
    assert len(found) == 1 and "net.weight" in found[0].message


class Prints(Writes):
    def forward(self, obs):
        print("acting")
        return self.net(obs)


def test_side_effects() -> None:
    assert said(audited(Prints(), OBS), "side-effect") == [("side-effect", "note")]
    assert said(audited(Writes(), OBS), "side-effect") == []
