from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop

import graphaudit
from graphaudit.capture import capture
from graphaudit.control_flow import ControlFlow
from graphaudit.equivalence.verdict import Claim
from graphaudit.export.translate import to_onnx
from graphaudit.graphs.loop_bounds import Bounds
from graphaudit.graphs.program import Program
from graphaudit.passes.convert_loops_to_masks import ConvertLoopsToMasks
from graphaudit.policy import Policy
from graphaudit.rewrite.structure import find_malformation
from graphaudit.rulebook import load_rulebook
from graphaudit.runtimes import onnxruntime as ort

ASCEND = load_rulebook("ascend-310p").target
INPUTS = [torch.tensor([1.0, -2.0, 0.5]) * scale for scale in (0.0, 0.1, 0.6, 1.5, 20.0)]


class Halves(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return while_loop(lambda y: y.norm() > 1, lambda y: (y * 0.5,), (x,))[0]


class Counts(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        def running(i: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.logical_and(i < 6, y.norm() > 1)

        return while_loop(running, lambda i, y: (i + 1, y * 0.5), (torch.full((), 0), x))


class Nests(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.norm() > 1:
            y = x
            while y.norm() > 2:
                y = y * 0.7 if y[0] > 0 else y * 0.6
            x = self.layer(y).tanh() * y * 0.4
        return x


@dataclass
class Made:
    """A policy and its graph with the loops in it."""

    policy: Policy
    program: Program


def make(module: nn.Module, bound: int | None = None, dynamic: bool = False) -> Made:
    torch.manual_seed(0)
    example = torch.ones(2, 3) if dynamic else torch.ones(3)
    policy = Policy("loop", module.eval(), (example,), dynamic_shapes=[{0: "batch"}] if dynamic else None)
    program = capture(policy, look_for_frozen=False, control_flow=ControlFlow.NATIVE).program
    assert program is not None
    program.bounds = Bounds(default=bound)
    return Made(policy, program)


def loops(program: Program) -> int:
    return len(program.graph.find_nodes(op="call_function", target=torch.ops.higher_order.while_loop))


def test_a_loop_with_a_bound_becomes_passes_and_a_guard() -> None:
    made = make(Halves(), bound=4)
    result = ConvertLoopsToMasks().run(made.program.copy(), ASCEND)
    assert len(result.rewritten) == 1 and not result.left and loops(result.artifact) == 0
    assert find_malformation(made.program, result.artifact) is None
    (guard,) = result.artifact.interface.guards
    assert "runs at most 4 times" in guard.condition
    run, exported = result.artifact.runner(), ort.runner(to_onnx(result.artifact, ASCEND))
    for x in INPUTS:
        for got, fires in (run([x]), exported([x])):
            assert bool(fires) == bool(x.norm() > 16)
            assert bool(fires) or torch.allclose(got, made.policy.working(x))


def test_a_counter_proves_the_bound_so_no_guard_is_needed() -> None:
    made = make(Counts())
    result = ConvertLoopsToMasks().run(made.program.copy(), ASCEND)
    assert result.changed and not result.artifact.interface.guards
    for x in INPUTS:
        for got, want in zip(result.artifact.runner()([x]), made.policy.working(x), strict=True):
            assert torch.equal(got, want)


def test_loops_in_loops_run_under_both_masks() -> None:
    made = make(Nests(), bound=9)
    result = ConvertLoopsToMasks().run(made.program.copy(), ASCEND)
    assert result.changed and loops(result.artifact) == 0
    run = ort.runner(to_onnx(result.artifact, ASCEND))
    for x in INPUTS:
        got, *guards = run([x])
        assert len(guards) == 10 and not any(map(bool, guards))
        assert torch.allclose(got, made.policy.working(x), rtol=1e-5, atol=1e-6)


def test_a_batch_of_any_size() -> None:
    made = make(Halves(), bound=6, dynamic=True)
    run = ort.runner(to_onnx(ConvertLoopsToMasks().run(made.program.copy(), ASCEND).artifact, ASCEND))
    for batch in (1, 2, 5):
        x = torch.randn(batch, 3) * 4
        assert torch.allclose(run([x])[0], made.policy.working(x))


def test_without_a_bound_the_loop_stays_with_that_reason() -> None:
    result = ConvertLoopsToMasks().run(make(Halves()).program.copy(), ASCEND)
    assert not result.changed and "nothing bounds how often the loop at line" in result.left[0].reason


def test_a_target_with_loops_keeps_them() -> None:
    assert ConvertLoopsToMasks.suits(ASCEND) and not ConvertLoopsToMasks.suits(load_rulebook("onnxruntime").target)


def test_a_second_run_changes_nothing() -> None:
    once = ConvertLoopsToMasks().run(make(Halves(), bound=3).program.copy(), ASCEND).artifact
    assert not ConvertLoopsToMasks().run(once.copy(), ASCEND).changed


@pytest.mark.parametrize("target, bound, fit", [("ascend-310p", 8, True), ("ascend-310p", None, False)])
def test_an_exported_program_goes_where_no_loops_run_if_it_has_a_bound(
    target: str, bound: int | None, fit: bool, tmp_path: Any
) -> None:
    exported = torch.export.export(Halves().eval(), (torch.ones(3),), strict=False)
    torch.export.save(exported, tmp_path / "policy.pt2")
    from graphaudit.policy.loading import load_policy

    report = graphaudit.rewrite(
        load_policy(str(tmp_path / "policy.pt2")), target=target, loop_bounds=[bound] if bound else [], count=16
    )
    assert report.fit[target] is fit, [f for f in report.findings if f.blocks]
    row = next(r for r in report.passes if r.name == "convert_loops_to_masks")
    if fit:
        assert row.changed == 1 and row.verdict is not None and row.verdict.claim is Claim.BOUNDED
        assert report.certificate is not None and any("at most 8 times" in c for c in report.certificate.conditions)
    else:
        errors = [f for f in report.findings if f.blocks]
        assert any(f.name == "loop-bound-unknown" and f.line is not None for f in errors)
