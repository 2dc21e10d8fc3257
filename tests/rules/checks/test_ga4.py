"""Checks of family GA4, randomness."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.rules.checks.subjects import audited, event, findings, observed, said


@pytest.mark.parametrize("kind", ["random", "generator", "python-random", "numpy-random"])
def test_draws_that_matter_are_errors(kind: str) -> None:
    assert said(observed(event(kind, "aten::randn"), with_seed=True), "random-op") == [("random-op", "error")]
    assert said(observed(event(kind, "aten::randn"), between_calls=True), "random-op") == [("random-op", "error")]
    assert said(observed(event(kind, "aten::randn")), "random-op") == [("random-op", "note")]


@pytest.mark.parametrize(
    ("kind", "name"),
    [("generator", "generator-object"), ("python-random", "python-random"), ("numpy-random", "numpy-in-forward")],
)
def test_a_draw_that_was_not_seen_to_matter_is_still_a_warning(kind: str, name: str) -> None:
    assert said(observed(event(kind, "aten::randn")), name) == [(name, "warning")]
    assert said(observed(event(kind, "aten::randn"), with_seed=True), name) == [(name, "error")]


class Seeded(nn.Module):
    def forward(self, obs):
        g = torch.Generator().manual_seed(7)
        return obs + torch.randn(1, 4, generator=g)


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(7)

    def forward(self, obs):
        return obs + torch.randn(1, 4, generator=self.generator)


def test_a_generator_seeded_in_forward_is_constant_and_one_on_the_module_is_not() -> None:
    args = (torch.ones(1, 4),)
    (constant,) = findings(audited(Seeded(), args, capturing=False), "generator-object")
    assert constant.severity == "warning" and "constants" in constant.message
    assert said(audited(Stateful(), args, capturing=False), "generator-object") == [("generator-object", "error")]


class Dropping(nn.Module):
    def __init__(self, training: bool):
        super().__init__()
        self.training_too = training
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))

    def forward(self, obs):
        h = self.net(obs)
        return F.dropout(h, 0.3, training=True) if self.training_too else h


def test_dropout_in_train_mode_is_a_warning_and_in_eval_mode_an_error() -> None:
    args = (torch.ones(1, 4),)
    (layer,) = findings(audited(Dropping(False).train(), args, capturing=False), "dropout-active")
    assert (layer.severity, layer.node) == ("warning", "net.1")
    assert said(audited(Dropping(False).eval(), args, capturing=False), "dropout-active") == []
    (always,) = findings(audited(Dropping(True).eval(), args, capturing=False), "dropout-active")
    assert always.severity == "error" and always.file == __file__


class Numpy(nn.Module):
    def forward(self, obs):
        return torch.from_numpy(np.clip(obs.detach().numpy(), -1, 1))


def test_numpy_in_forward_at_the_users_line() -> None:
    (found,) = findings(audited(Numpy(), (torch.ones(1, 4),)), "numpy-in-forward")
    assert found.file == __file__


class Angles(nn.Module):
    def forward(self, obs):
        return torch.distributions.VonMises(obs, obs.exp()).sample()


class Tails(nn.Module):
    def forward(self, obs):
        return torch.distributions.StudentT(obs.exp()).sample()


@pytest.mark.parametrize("cls", [Angles, Tails])
def test_draws_by_rejection_leave_a_choice(cls: type[nn.Module]) -> None:
    (found,) = findings(audited(cls(), (torch.ones(1, 4),), capturing=False), "random-op")
    assert "by rejection" in found.message and found.file == __file__
    assert "mean or its mode" in (found.remedy or "") and "sample outside" in found.remedy
