"""Checks of family GA0, capture and inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, spectral_norm

from graphaudit.capture.optional import with_zeros_for_none
from tests.rules.checks.subjects import audited, case, event, findings, observed, said

OBS = (torch.ones(2, 4),)


@pytest.mark.parametrize(
    ("kind", "name", "captured"),
    [
        ("gradient", "autograd-in-forward", "note"),
        ("control-flow-op", "control-flow-operator", "note"),
        ("scripted", "scripted-submodule", "warning"),
        ("packed", "packed-sequence", "note"),
    ],
)
def test_severity_follows_capture(kind: str, name: str, captured: str) -> None:
    assert said(observed(event(kind, "cond")), name) == [(name, captured)]
    assert said(observed(event(kind, "cond"), captured=False), name) == [(name, "error")]
    assert said(observed(), name) == []


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor) -> torch.Tensor:
        return (logits > 0).float()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)

    def squash(self, x):
        return Straight.apply(x)

    def forward(self, obs):
        return self.squash(self.net(obs))


def test_custom_autograd_function() -> None:
    found = findings(audited(Custom(), OBS), "custom-autograd-function")
    assert [f.severity for f in found] == ["note"]
    assert "Straight" in found[0].message and found[0].file == __file__


class Ensemble(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(3, 2, 4))

    def forward(self, obs):
        return torch.vmap(lambda w: obs @ w.T)(self.weights)


def test_vmap() -> None:
    assert said(audited(Ensemble(), OBS), "vmap") == [("vmap", "note")]
    assert said(audited(Custom(), OBS), "vmap") == []


def test_parametrisation_new_and_old() -> None:
    new, old = parametrizations.weight_norm(nn.Linear(4, 2)), spectral_norm(nn.Linear(4, 2))
    found = findings(audited(nn.Sequential(new, nn.ReLU(), nn.Linear(2, 4), old), OBS), "parametrisation")
    assert {f.node for f in found} == {"0.weight", "3.weight"}
    assert said(audited(nn.Linear(4, 2), OBS), "parametrisation") == []


def test_custom_op_names_the_operator_and_the_line() -> None:
    _, subject = case("case_140")
    (found,) = findings(subject, "custom-op")
    assert found.severity == "warning" and "symexp" in found.message and found.line is not None
    assert said(audited(Custom(), OBS), "custom-op") == []


class ReturnsDistribution(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu = nn.Linear(4, 2)

    def forward(self, obs):
        return torch.distributions.Normal(self.mu(obs), torch.ones(2), validate_args=False)


def test_distribution_made_and_returned() -> None:
    found = findings(audited(ReturnsDistribution(), OBS), "distribution-object")
    assert len(found) == 2 and {f.severity for f in found} == {"note"}
    assert any("returns a Normal" in f.message for f in found)


class Step(NamedTuple):
    action: torch.Tensor
    value: torch.Tensor | None


class Structured(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)

    def forward(self, obs):
        y = self.net(obs)
        return {"step": Step(y, None), "pair": (y + 1, [y + 2])}


class Plain(Structured):
    def forward(self, obs):
        return self.net(obs), (obs, [obs + 1])


def test_structured_and_none_outputs() -> None:
    subject = audited(Structured(), OBS, capturing=False)
    (found,) = findings(subject, "structured-output")
    assert "dict" in found.message and "Step" in found.message and "tuple," not in found.message
    assert said(subject, "none-output") == [("none-output", "note")]
    assert said(audited(Plain(), OBS, capturing=False), "structured-output", "none-output") == []


class ReturnsNumber(Structured):
    def forward(self, obs):
        return self.net(obs), 0.5


def test_python_output() -> None:
    assert said(audited(ReturnsNumber(), OBS, capturing=False), "python-output") == [("python-output", "note")]
    _, wrapped = case("case_156")
    assert "python-output" in dict(said(wrapped, "python-output"))


class Optional(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 6)

    def forward(self, obs, h=None):
        return self.cell(obs, h)


def test_optional_input_is_an_error_only_if_the_user_gives_it() -> None:
    args = (torch.ones(2, 4), None)
    name = "optional-input-specialised"
    assert said(audited(Optional(), args, capturing=False), name) == [(name, "warning")]
    given = audited(Optional(), args, lambda seed: (args[0], torch.zeros(2, 6)), capturing=False)
    assert said(given, name) == [(name, "error")]
    assert given.policy is not None
    filled = replace(given, policy=with_zeros_for_none(given.policy))
    assert said(filled, name) == [(name, "note")]
    assert said(audited(Optional(), (args[0], torch.zeros(2, 6)), capturing=False), name) == []


def test_hooks_are_notes_with_the_module() -> None:
    _, subject = case("case_155")
    found = findings(subject, "forward-hook")
    assert len(found) == 2 and {f.severity for f in found} == {"note"}
    assert any("enc" in f.message for f in found)


def test_custom_operators_are_named_where_no_graph_shows_them() -> None:
    called = event("custom-op", "demo::pick")
    assert said(observed(called, captured=False), "custom-op") == [("custom-op", "error")]
    assert said(observed(called), "custom-op") == [("custom-op", "warning")]
