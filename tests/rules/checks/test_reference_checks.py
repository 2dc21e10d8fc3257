"""What the checks say about a module that differs from its reference, each on a module that has just that defect."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from graphaudit.audit.subject import Subject
from graphaudit.errors import PolicyError
from graphaudit.findings import Finding, Severity
from graphaudit.policy import Policy
from graphaudit.registry import find_check

NAMES = (
    "differs-from-reference",
    "normalisation-missing",
    "image-scaling-missing",
    "action-squash-missing",
    "action-rescale-missing",
    "action-clip-missing",
    "layout-transpose-missing",
)


class Actor(nn.Module):
    """obs (batch, 4) → action (batch, 2)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.net(obs)


class Vision(nn.Module):
    """image (batch, 3, 8, 8) → action (batch, 2)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.net(image)


class Pipeline(nn.Module):
    """Any steps before and after a network; `tensors` become buffers."""

    def __init__(self, net: nn.Module, function: Callable, **tensors: torch.Tensor) -> None:
        super().__init__()
        self.net, self.function = net, function
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.running_mean) / torch.sqrt(self.running_var + 1e-2)


MEAN, VAR = torch.tensor([1.0, -2.0, 10.0, 0.0]), torch.tensor([4.0, 0.25, 100.0, 1.0])
LOW, HIGH = torch.tensor([-2.0, 0.0]), torch.tensor([2.0, 5.0])


def observations(seed: int) -> tuple[torch.Tensor]:
    return (torch.randn(2, 4, generator=torch.Generator().manual_seed(seed)) * VAR.sqrt() + MEAN,)


def images(seed: int) -> tuple[torch.Tensor]:
    return (torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed)) * 255,)


def squares(seed: int) -> tuple[torch.Tensor]:
    return (torch.rand(2, 4, 4, 4, generator=torch.Generator().manual_seed(seed)),)


def findings(
    module: nn.Module, reference: nn.Module, inputs=observations, file: Path | None = None
) -> dict[str, Finding]:
    policy = Policy("p.py:build", module.eval(), inputs(0), inputs=inputs, reference=reference.eval(), file=file)
    found: dict[str, Finding] = {}
    for name in NAMES:
        check = find_check(name)
        assert check is not None
        for finding in check().examine(Subject(policy=policy)):
            assert finding.name == name and name not in found
            found[name] = finding
    return found


def test_the_module_itself_and_a_rounding_away_are_no_finding() -> None:
    module = Actor()
    assert findings(module, Actor()) == {}
    other_order = Pipeline(Actor(), lambda s, x: torch.cat([s.net(row[None]) for row in x]))
    assert findings(module, other_order) == {}


def test_no_reference_no_finding() -> None:
    for name in NAMES:
        assert list(find_check(name)().examine(Subject(policy=Policy("p", Actor(), observations(0))))) == []
        assert list(find_check(name)().examine(Subject())) == []


def test_missing_normalisation_is_read_off_the_inner_module() -> None:
    reference = Pipeline(Actor(), lambda s, x: s.net(((x - s.mean) / (s.var + 1e-8).sqrt()).clamp(-10, 10)),
                         mean=MEAN, var=VAR)  # fmt: skip
    found = findings(Actor(), reference)
    assert set(found) == {"differs-from-reference", "normalisation-missing"}
    assert found["differs-from-reference"].severity is Severity.ERROR
    assert "max |Δ|" in found["differs-from-reference"].message
    assert "normalises 'obs': (x − [1, -2, 10," in found["normalisation-missing"].message
    assert "/ [2, 0.5, 10, 1]" in found["normalisation-missing"].message


@pytest.mark.parametrize("form", ["var", "std", "numpy", "clip"])
def test_missing_normalisation_is_found_among_the_references_tensors(form: str) -> None:
    net = Actor().net  # not the module itself, so nothing can be read off
    functions = {
        "var": lambda s, x: s.net((x - s.obs_mean) / (s.obs_var + 1e-2).sqrt()),
        "std": lambda s, x: s.net((x - s.obs_mean) / s.obs_std),
        "numpy": lambda s, x: s.net((x - torch.from_numpy(s.np_mean)) / torch.from_numpy(s.np_std)),
        "clip": lambda s, x: s.net(((x - s.obs_mean) / (s.obs_var * 0.01 + 1e-8).sqrt()).clamp(-5, 5)),
    }
    tensors = {"obs_mean": MEAN, "obs_std": VAR.sqrt()} if form == "std" else {"obs_mean": MEAN, "obs_var": VAR}
    if form == "clip":
        functions["clip"] = lambda s, x: s.net(((x - s.obs_mean) / (s.obs_var + 1e-8).sqrt()).clamp(-5, 5))

    def wide(seed: int) -> tuple[torch.Tensor]:
        return (observations(seed)[0] * (4 if form == "clip" else 1),)

    reference = Pipeline(net, functions[form], **({} if form == "numpy" else tensors))
    if form == "numpy":
        reference.np_mean, reference.np_std = MEAN.numpy(), VAR.sqrt().numpy().astype(np.float32)
    found = findings(Actor(), reference, wide)
    assert found["normalisation-missing"].severity is Severity.WARNING
    assert "mean and" in found["normalisation-missing"].message
    assert ("clips to ±5" in found["normalisation-missing"].message) == (form == "clip")


def test_statistics_that_explain_nothing_are_a_note() -> None:
    reference = Pipeline(Actor().net, lambda s, x: s.net(torch.sin(x)), obs_mean=MEAN, obs_var=VAR)
    found = findings(Actor(), reference)
    assert set(found) == {"differs-from-reference", "normalisation-missing"}
    assert found["normalisation-missing"].severity is Severity.NOTE
    assert "what is missing" not in found["differs-from-reference"].message


def test_missing_squash_and_rescale() -> None:
    reference = Pipeline(Actor(), lambda s, x: s.low + 0.5 * (torch.tanh(s.net(x)) + 1) * (s.high - s.low),
                         low=LOW, high=HIGH)  # fmt: skip
    found = findings(Actor(), reference)
    assert set(found) == {"differs-from-reference", "action-squash-missing", "action-rescale-missing"}
    assert "by [2, 2.5] and adds [" in found["action-rescale-missing"].message
    assert found["action-squash-missing"].evidence.rule.endswith("rows of outputs compared")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda s, x: torch.tanh(s.net(x)), {"action-squash-missing"}),
        (lambda s, x: torch.sigmoid(s.net(x)), {"action-squash-missing"}),
        (lambda s, x: s.net(x) * s.high + s.low, {"action-rescale-missing"}),
        (lambda s, x: s.net(x).clamp(-0.2, 0.3), {"action-clip-missing"}),
        (lambda s, x: s.net(x).clamp(-0.2, 0.3) * 4 + 1, {"action-rescale-missing", "action-clip-missing"}),
        (lambda s, x: torch.tanh(s.net((x - 3) / 2)), {"normalisation-missing", "action-squash-missing"}),
        (lambda s, x: s.net(x).square(), set()),
    ],
)
def test_steps_after_the_network(function: Callable, expected: set[str]) -> None:
    found = findings(Actor(), Pipeline(Actor(), function, low=LOW, high=torch.tensor([3.0, 5.0])))
    assert set(found) == {"differs-from-reference"} | expected


def test_missing_image_scaling_and_layout() -> None:
    assert set(findings(Vision(), Pipeline(Vision(), lambda s, x: s.net(x / 255)), images)) == {
        "differs-from-reference", "image-scaling-missing"}  # fmt: skip
    torch.manual_seed(0)
    conv = nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))
    found = findings(conv, Pipeline(conv, lambda s, x: s.net(x.permute(0, 3, 1, 2))), squares)
    assert set(found) == {"differs-from-reference", "layout-transpose-missing"}
    assert "HWC to CHW" in found["layout-transpose-missing"].message
    both = findings(conv, Pipeline(conv, lambda s, x: s.net(x.permute(0, 3, 1, 2) / 255)), squares)
    assert {"image-scaling-missing", "layout-transpose-missing"} < set(both)


def test_another_shape_or_number_of_outputs_is_said() -> None:
    greedy = findings(Actor(), Pipeline(Actor(), lambda s, x: s.net(x).argmax(-1)))
    assert "float32 (2, 2) where reference() gives int64 (2,)" in greedy["differs-from-reference"].message
    two = findings(Actor(), Pipeline(Actor(), lambda s, x: (s.net(x), s.net(x))))
    assert "returns 1 tensors where reference() returns 2" in two["differs-from-reference"].message


def test_statistics_never_loaded_are_a_warning() -> None:
    def build() -> nn.Module:
        return nn.Sequential(Norm(4), Actor())

    reference = build()
    reference[0].running_mean += MEAN
    reference[0].running_var *= 3
    reference[0].count += 100
    found = findings(build(), reference)
    assert set(found) == {"differs-from-reference"}
    assert found["differs-from-reference"].severity is Severity.WARNING
    assert "never loaded (0.running_mean, 0.running_var" in found["differs-from-reference"].message
    with torch.no_grad():
        reference[1].net[0].weight += 0.1  # now more than the statistics differs
    assert findings(build(), reference)["differs-from-reference"].severity is Severity.ERROR


def test_the_place_is_the_definition_of_reference(tmp_path: Path) -> None:
    file = tmp_path / "p.py"
    file.write_text("import torch\n\n\ndef reference():\n    return 1\n")
    found = findings(Actor(), Pipeline(Actor(), lambda s, x: torch.tanh(s.net(x))), file=file)
    assert {(f.file, f.line) for f in found.values()} == {(str(file), 4)}


def test_a_reference_that_raises_is_an_error() -> None:
    def broken(s: nn.Module, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no statistics")

    with pytest.raises(PolicyError, match=r"reference\(\) raises ValueError on example at .*: no statistics"):
        findings(Actor(), Pipeline(Actor(), broken))


def test_the_users_modules_are_left_as_they_were() -> None:
    module = Actor()
    reference = Pipeline(module, lambda s, x: torch.tanh(s.net(x)))
    before = {k: v.clone() for k, v in module.state_dict().items()}
    findings(module, reference)
    assert all(torch.equal(v, module.state_dict()[k]) for k, v in before.items())
    assert not module._forward_pre_hooks


def test_checks_import_nothing_heavy() -> None:
    import subprocess

    names = " ".join(f"graphaudit.rules.checks.{n.replace('-', '_')}" for n in NAMES)
    code = f"import sys, importlib; [importlib.import_module(m) for m in '{names}'.split()]; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"  # noqa: E501
    subprocess.run([sys.executable, "-c", code], check=True)
