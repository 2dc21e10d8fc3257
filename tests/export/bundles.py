"""Policies of every kind of interface, and bundles made of them by the real parts of the engine."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from graphaudit.equivalence.certificate import certify
from graphaudit.equivalence.inputs import collect
from graphaudit.equivalence.reference import Reference
from graphaudit.export.bundle import write_bundle
from graphaudit.export.translate import to_onnx
from graphaudit.policy import Policy
from graphaudit.results import CaptureSummary, PolicySummary, Report
from graphaudit.runtimes.onnxruntime import runner
from tests.export.targets import ONNXRUNTIME
from tests.helpers import make_program

Pair = namedtuple("Pair", ["mean", "scale"])


@dataclass
class Step:
    """A policy's own result type."""

    action: torch.Tensor
    info: dict


class Actor(nn.Module):
    """A small MLP; every method of the tests' policies starts from it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


class Plain(Actor):
    """One tensor in, one out."""

    def forward(self, obs):
        return self.body(obs)


class Rich(Actor):
    """Dict in; dataclass with a nested dict, a named tuple, None, a list and an integer action out; a flag."""

    def forward(self, obs, deterministic=True, mask=None):
        logits = self.body(obs["state"]) + obs["bias"][0]
        pair = Pair(logits, torch.ones_like(logits)) if deterministic else None
        return Step(logits.argmax(-1), {"pair": pair, "nothing": None, "list": [logits.exp()]})


class Distribution(Actor):
    """Returns a distribution object."""

    def forward(self, obs):
        return torch.distributions.Normal(self.body(obs), torch.ones(2), validate_args=False)


class Keywords(Actor):
    """A keyword-only tensor, and a default that the example leaves alone."""

    def forward(self, obs, /, scale=2.0, *, shift):
        return self.body(obs) * scale + shift


def rich_example() -> tuple[Any, ...]:
    return ({"state": torch.randn(3, 4), "bias": (torch.ones(2),)}, True)


def prepare(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, dynamic_shapes: Any = None
) -> dict[str, Any]:
    """Capture, export and check a module by the engine's own parts: the arguments of `write_bundle`."""
    policy, program = make_program(module, args, dynamic_shapes, kwargs)
    model = to_onnx(program, ONNXRUNTIME)
    reference = Reference(policy, collect(policy, 12))
    verdict = reference.check("export", runner(model))
    assert verdict.holds, verdict.note
    certificate = certify(policy, ONNXRUNTIME.name, reference, [verdict])
    report = Report(
        graphaudit_version="0",
        command="rewrite",
        policy=PolicySummary(name=policy.name),
        capture=CaptureSummary(method="torch.export", seconds=verdict.seconds),
        targets=[ONNXRUNTIME.name],
        findings=[],
        fit={ONNXRUNTIME.name: True},
        certificate=certificate,
        bundle="somewhere",
    )
    return {
        "model": model,
        "policy": policy,
        "interface": program.interface,
        "reference": reference,
        "certificate": certificate,
        "report": report,
        "target": ONNXRUNTIME,
        "seed": 7,
    }


def write(directory: Path, *args: Any, **options: Any) -> Policy:
    """Prepare a module and write its bundle."""
    parts = prepare(*args, **options)
    write_bundle(directory, **parts)
    return parts["policy"]


@cache
def prepare_plain() -> dict[str, Any]:
    """The parts of the plainest bundle, with a dynamic batch."""
    torch.manual_seed(0)
    return prepare(Plain(), (torch.randn(3, 4),), dynamic_shapes=[{0: "batch"}])


def write_plain(directory: Path, **options: Any) -> Policy:
    """Write the plainest bundle."""
    write_bundle(directory, **prepare_plain(), **options)
    return prepare_plain()["policy"]
