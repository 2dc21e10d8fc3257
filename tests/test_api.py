"""The functions, over the interfaces that policies have: what goes in, what comes out, and what is refused."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn
from torch.utils import _pytree as pytree

import graphaudit
from graphaudit.errors import GuardError, PolicyError
from graphaudit.policy import Policy
from graphaudit.policy.isolation import Fingerprint
from graphaudit.report.terminal import print_report


@dataclasses.dataclass
class State:
    position: torch.Tensor
    velocity: torch.Tensor


class Actor(nn.Module):
    """A linear layer under a forward of the test's choice."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(4, 2)
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.net, *args, **kwargs)


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def nested(net: nn.Module, obs: Any, *, scale: torch.Tensor) -> Any:
    return {"action": net(obs["body"]["joints"]) * scale, "rest": (obs["goal"], None)}


Case = tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any], Sequence[Any] | None]
OBS = torch.ones(2, 4)
FIT: dict[str, Case] = {
    "nested dicts and a keyword": (
        nested,
        ({"body": {"joints": OBS}, "goal": torch.ones(2)},),
        {"scale": torch.tensor(2.0)},
        None,
    ),
    "a dataclass in and out": (lambda net, s: State(net(s.position), s.velocity), (State(OBS, OBS[:, :1]),), {}, None),
    "dynamic sizes inside a dict": (
        lambda net, o: net(o["x"]).sum(1) + o["y"][0],
        ({"x": torch.ones(3, 4), "y": [torch.ones(3)]},),
        {},
        ({"x": {0: "batch"}, "y": [{0: "batch"}]},),
    ),
    "the input among the outputs, and one twice": (lambda net, x: (x, (y := net(x)), y, x[0]), (OBS,), {}, None),
    "an input that is not used": (lambda net, x, t: net(x), (OBS, torch.ones(3)), {}, None),
    "an empty tensor": (lambda net, x, e: (net(x), torch.cat([x[:, 0], e])), (OBS, torch.zeros(0)), {}, None),
    "a constant among the outputs": (lambda net, x: (net(x), torch.arange(3)), (OBS,), {}, None),
    "a number among the outputs": (lambda net, x: (net(x), 3), (OBS,), {}, None),
    "a distribution": (
        lambda net, x: torch.distributions.Independent(torch.distributions.Normal(net(x), 1.0), 1),
        (OBS,),
        {},
        None,
    ),
    "small integers": (
        lambda net, x: ((x.int() * 3).to(torch.int8), x.float() / 255),
        (torch.arange(4, dtype=torch.int8),),
        {},
        None,
    ),
    "a string that selects": (lambda net, x, mode: net(x) if mode == "plain" else x, (OBS, "plain"), {}, None),
}


@pytest.mark.parametrize("name", FIT)
def test_an_interface_travels(name: str, tmp_path: Path) -> None:
    function, args, kwargs, dynamic = FIT[name]
    policy = Policy(name, Actor(function).eval(), args, kwargs, None, dynamic)
    report = graphaudit.rewrite(policy, target="onnxruntime", output=tmp_path / "bundle", count=16)
    assert report.bundle, report.statement
    with torch.no_grad():
        expected = policy.interface.flatten_result(policy.module(*args, **kwargs))
    result = graphaudit.load(report.bundle)(*args, **kwargs)
    got = policy.interface.flatten_result(result) if name != "a dataclass in and out" else list(vars(result).values())
    for wanted, have in zip(expected, got, strict=True):
        torch.testing.assert_close(torch.as_tensor(have), wanted)
    assert graphaudit.verify(report.bundle).ok


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "complex results": (lambda net, x: torch.complex(net(x), net(-x)), "export-failed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_travel_is_refused_with_its_name(name: str, tmp_path: Path) -> None:
    function, finding = REFUSED[name]
    report = graphaudit.rewrite(Actor(function).eval(), (OBS,), target="onnxruntime", output=tmp_path / "bundle")
    assert report.bundle is None and not (tmp_path / "bundle").exists()
    assert finding in {f.name for f in report.findings if f.blocks}


def test_other_batches_than_declared_are_found() -> None:
    def draw(seed: int) -> tuple[torch.Tensor]:
        return (normal(seed, 1 + seed % 6, 4),)

    actor = Actor(lambda net, x: net(x) if x.shape[0] > 3 else -net(x)).eval()
    report = graphaudit.rewrite(actor, (OBS,), inputs=draw, target="onnxruntime")
    assert "batch-size-frozen" in {f.name for f in report.findings if f.blocks}


def test_scripted_and_traced_policies_are_refused_without_a_crash() -> None:
    linear = nn.Linear(4, 2).eval()
    for module in (torch.jit.script(linear), torch.jit.trace(linear, (OBS,))):
        report = graphaudit.rewrite(module, (OBS,), target="onnxruntime")
        assert "scripted-submodule" in {f.name for f in report.findings if f.blocks}


def test_a_compiled_policy_travels() -> None:
    assert graphaudit.rewrite(torch.compile(nn.Linear(4, 2).eval()), (OBS,), target="onnxruntime").fit["onnxruntime"]


def test_the_module_is_as_it_was() -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2)).train()
    fingerprint = Fingerprint(module)
    state = {k: v.clone() for k, v in module.state_dict().items()}
    report = graphaudit.rewrite(module, (OBS,), target="onnxruntime")
    fingerprint.verify()
    assert all(torch.equal(v, state[k]) for k, v in module.state_dict().items())
    assert "module-in-train-mode" in {f.name for f in report.findings} and report.fit["onnxruntime"]


def test_an_audit_of_several_targets_names_the_target_where_they_differ() -> None:
    actor = Actor(lambda net, x: torch.exp(net(x)) / torch.exp(net(x)).sum(-1, keepdim=True)).eval()
    report = graphaudit.audit(actor, (OBS,), target=["onnxruntime", "ascend-310p"])
    named = [f for f in report.findings if f.name == "naive-softmax"]
    assert {f.target for f in named} == {"onnxruntime", "ascend-310p"}
    assert report.fit == {"onnxruntime": True, "ascend-310p": True}


def test_a_module_without_example_inputs_is_an_error() -> None:
    with pytest.raises(PolicyError, match="example inputs"):
        graphaudit.audit(nn.Linear(4, 2))
    with pytest.raises(PolicyError, match="not a tuple"):
        graphaudit.audit(nn.Linear(4, 2), torch.ones(2, 4))
    with pytest.raises(PolicyError, match="no values yet"):
        graphaudit.audit(nn.LazyLinear(2), (torch.ones(2, 4),))


def halved(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    action = net(x)
    while action.norm() > 1.0:
        action = action * 0.5
    return action


def test_a_deployed_loop_that_would_outrun_its_bound_raises(tmp_path: Path) -> None:
    actor = Actor(halved).eval()
    report = graphaudit.rewrite(
        actor, (OBS,), target="ascend-310p", output=tmp_path / "bundle", count=16, loop_bounds=[12]
    )
    assert report.bundle, report.statement
    deployed = graphaudit.load(report.bundle)
    torch.testing.assert_close(deployed(8 * OBS), halved(actor.net, 8 * OBS).detach())
    with pytest.raises(GuardError, match="at most 12 times"):
        deployed(1e6 * OBS)


def test_a_certificate_says_which_steps_are_proved() -> None:
    def unsound(net: nn.Module, obs: torch.Tensor) -> Any:
        return torch.isnan(net(obs)) | net.off, torch.tanh(obs)

    actor = Actor(unsound).eval()
    actor.net.register_buffer("off", torch.zeros(2, dtype=torch.bool))
    report = graphaudit.rewrite(actor, (OBS,), target="onnxruntime", count=4)
    assert report.certificate is not None
    (proof,) = [v.proof for v in report.certificate.verdicts if v.step == "simplify_onnx"]
    assert proof is not None and proof.proved == ["output_1"] and proof.compared == ["output_0"]
    (step,) = proof.steps  # "or false", which onnxsim leaves out
    assert step.place is not None and step.place.line == unsound.__code__.co_firstlineno + 1
    stream = io.StringIO()
    print_report(report, Console(file=stream, width=160))
    assert f"  {proof.sentence}" in stream.getvalue()
    assert all(v.proof is None for v in report.certificate.verdicts if v.step in ("capture", "export"))


def test_subpackages_and_functions_share_their_names() -> None:
    from graphaudit.audit.check import Check
    from graphaudit.rewrite.base import Pass

    assert Check and Pass and callable(graphaudit.audit) and callable(graphaudit.rewrite)
    assert pytree.tree_leaves(graphaudit.audit(nn.Linear(4, 2), (OBS,)).fit) == [True]
