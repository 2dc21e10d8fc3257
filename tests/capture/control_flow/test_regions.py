from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from graphaudit.capture import Capture, capture
from graphaudit.control_flow import ControlFlow
from graphaudit.export.translate import to_onnx
from graphaudit.policy import Policy
from graphaudit.rulebook import load_rulebook
from graphaudit.runtimes import onnxruntime as ort

# Norms from 0 to about 100: loops that halve run 0, 1, some and many times.
INPUTS = [torch.tensor(v) * s for v in itertools.product((-1.0, 0.3, 2.6), repeat=3) for s in (30.0, 1.0, 0.1)]


class Cell(nn.Module):
    """What the functions below call `self`: layers, state, and containers to change."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.layer = nn.Linear(3, 3)
        self.gru = nn.GRUCell(3, 3)
        self.register_buffer("seen", torch.zeros(3))
        self.steps = 0
        self.memory: dict[str, Any] = {"h": torch.zeros(3)}

    def shrink(self, x: torch.Tensor) -> torch.Tensor:
        while x.abs().max() > 2:
            x = x * 0.7
        return x

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def halves(self: Cell, x: torch.Tensor) -> Any:
    while x.norm() > 1:
        x = x * 0.5
    return x


def counts(self: Cell, x: torch.Tensor) -> Any:
    steps, scale = 0, 1.0
    while x.norm() > 1:
        x = x * 0.5
        scale = scale * 0.3
        steps += 1
    return x * scale, steps


def ranges(self: Cell, x: torch.Tensor) -> Any:
    total = 0.0
    for i in range(int(x.abs().sum())):
        total = total + x * i
    return total + x


def ranges_from(self: Cell, x: torch.Tensor) -> Any:
    y = x
    for i in range(2, int(x.abs().max()), 3):
        y = y + i
    return y


def breaks(self: Cell, x: torch.Tensor) -> Any:
    y = torch.zeros(3)
    for i in range(int(x.abs().sum())):
        if y.sum() > 9:
            break
        if i % 2 == 0:
            continue
        y = y + x.abs()
    return y


def returns(self: Cell, x: torch.Tensor) -> Any:
    z = torch.zeros_like(x)
    while True:
        n = torch.tanh(0.5 * self.layer(z) + x)
        if (n - z).abs().max() < 1e-4:
            return n
        z = n


def returns_or_ends(self: Cell, x: torch.Tensor) -> Any:
    while x.norm() > 1:
        if x[0] < -20:
            return x * 0
        x = x * 0.5
    return x + 1


def calls_modules(self: Cell, x: torch.Tensor) -> Any:
    h = torch.zeros(3)
    while x.norm() > 1:
        h = self.gru(x, h)
        x = self.shrink(x) * 0.5
    return h, x


def nests(self: Cell, x: torch.Tensor) -> Any:
    total = torch.zeros(())
    while x.norm() > 1:
        y = x
        while y.norm() > 2:
            y = y * 0.8
            total = total + 1
        x = y * 0.4
    return total, x


def writes(self: Cell, x: torch.Tensor) -> Any:
    y = torch.zeros(3)
    while x.norm() > 1:
        x = x * 0.5
        y[0] += 1
        y[1:] = x[1:]
    return y


def keeps_state(self: Cell, x: torch.Tensor) -> Any:
    while x.norm() > 1:
        x = x * 0.5
        self.seen.add_(x.abs())
        self.memory["h"] = self.memory["h"] + x
        self.steps = self.steps + 1
    return self.seen * 2, self.memory["h"], self.steps


def carries_structures(self: Cell, x: torch.Tensor) -> Any:
    pair = (x, x.sum())
    parts = [x, x * 2]
    while pair[0].norm() > 1:
        pair = (pair[0] * 0.5, pair[1] + 1)
        parts[0] = parts[1] * 0.5
        parts[1] = pair[0]
    return pair[1], parts[0], parts[1]


def swaps(self: Cell, x: torch.Tensor) -> Any:
    a, b = x, x * 0.25
    while a.norm() > 1:
        a, b = b, a * 0.5
    return a, b


def under_a_branch(self: Cell, x: torch.Tensor) -> Any:
    if x[0] > 0:
        while x.norm() > 1:
            x = x * 0.5
    else:
        x = x + 1
    return x


def branches_inside(self: Cell, x: torch.Tensor) -> Any:
    while x.norm() > 1:
        x = x * 0.5 if x[1] > 0 else x * 0.4
        if x[0] > 1:
            x = x.abs()
    return x


def defines_inside(self: Cell, x: torch.Tensor) -> Any:
    while x.norm() > 1:
        last = x
        x = x * 0.5
    return x + last if x.norm() > 0.4 else x


def loops_by_operator(self: Cell, x: torch.Tensor) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda i, y: y.norm() > 1, lambda i, y: (i + 1, y * 0.5), (torch.zeros(()), x))


# Captured together, because a capture and an export take their time.
EXACT = [
    (halves, counts, ranges, ranges_from, breaks, returns, returns_or_ends, under_a_branch),
    (calls_modules, nests, writes, keeps_state, carries_structures, swaps, branches_inside, loops_by_operator),
    (defines_inside,),
]


def captured(*functions: Callable[..., Any], form: ControlFlow = ControlFlow.AUTO) -> tuple[Policy, Capture]:
    def every(self: Cell, x: torch.Tensor) -> Any:
        results = []
        for function in functions:
            results.append(function(self, x))
        return results

    policy = Policy("region", Cell(every).eval(), (INPUTS[0],))
    return policy, capture(policy, look_for_frozen=False, control_flow=form)


def wanted(policy: Policy, x: torch.Tensor) -> list[torch.Tensor] | None:
    """What eager gives, with the state it started from; None where it raises, for a variable without a value."""
    try:
        with policy.working.fresh() as module, torch.no_grad():
            return [t.clone() for t in policy.interface.flatten_result(module(x.clone()))]
    except UnboundLocalError:
        return None


@pytest.mark.parametrize("functions", EXACT, ids=lambda group: group[0].__name__)
def test_a_loop_without_a_bound_runs_in_onnxruntime_as_often_as_in_eager(functions: Any) -> None:
    policy, made = captured(*functions)
    assert made.program is not None, made.blockers
    loops = made.program.graph.find_nodes(op="call_function", target=torch.ops.higher_order.while_loop)
    assert len(loops) >= len(functions)
    assert all(choice.form is ControlFlow.NATIVE for choice in made.loops)
    run = ort.runner(to_onnx(made.program, load_rulebook("onnxruntime").target))
    compared = 0
    for x in INPUTS:
        expected = wanted(policy, x)
        if expected is not None:
            compared += 1
            for number, (got, want) in enumerate(zip(run([x]), expected, strict=True)):
                assert got.dtype == want.dtype and got.shape == want.shape
                assert torch.allclose(got, want, rtol=1e-5, atol=1e-6), (x, number, got, want)
    assert compared > len(INPUTS) // 3


def grows(self: Cell, x: torch.Tensor) -> Any:
    while x.norm() > 1:
        x = torch.cat([x, x[:1] * 0.1])[1:] * 0.5
        x = torch.cat([x, x])  # the line of the loop is named: no single statement is at fault
    return x.sum()


def collects(self: Cell, x: torch.Tensor) -> Any:
    out = []
    while x.norm() > 1:
        x = x * 0.5
        out.append(x)
    return torch.stack(out)


def names(self: Cell, x: torch.Tensor) -> Any:
    mode = "slow"
    while x.norm() > 1:
        x = x * 0.5
        mode = "fast"
    return x if mode == "fast" else x * 2


def draws(self: Cell, x: torch.Tensor) -> Any:
    while x.norm() > 1:
        x = x * torch.rand(3)
    return x


def writes_through_a_name(self: Cell, x: torch.Tensor) -> Any:
    y = x.clone()
    row = y[:2]
    while y.norm() > 1:
        row.mul_(0.5)
        y[2] = 0
    return y + row.sum()


def turns_to_double(self: Cell, x: torch.Tensor) -> Any:
    while x.norm() > 1:
        x = x.double() * 0.5
    return x


REFUSED = [
    (grows, 1, "changes its shape"),
    (collects, 2, "more or fewer members in a list"),
    (names, 2, "'slow'"),
    (draws, 2, "random draw"),
    (writes_through_a_name, 4, "another name"),
    (turns_to_double, 1, "torch.float32 to torch.float64"),
]


@pytest.mark.parametrize("function, line, reason", REFUSED, ids=[f[0].__name__ for f in REFUSED])
def test_what_a_loop_cannot_carry_is_refused_at_its_line(function: Callable[..., Any], line: int, reason: str) -> None:
    _, made = captured(function)
    assert made.program is None
    blocker = made.blockers[-1]
    assert reason in blocker.reason
    assert blocker.place is not None and blocker.place.line == function.__code__.co_firstlineno + line


def test_masks_alone_refuse_a_loop_without_a_bound() -> None:
    _, made = captured(halves, form=ControlFlow.MASKS)
    assert made.program is None and made.blockers[-1].kind == "loop-bound-unknown"


def test_a_batch_of_any_size_goes_through_the_loop() -> None:
    policy = Policy("region", Cell(halves).eval(), (torch.ones(2, 3),), dynamic_shapes=[{0: "batch"}])
    made = capture(policy, control_flow=ControlFlow.NATIVE)
    assert made.program is not None and not made.frozen
    run = ort.runner(to_onnx(made.program, load_rulebook("onnxruntime").target))
    for batch in (1, 2, 7):
        x = torch.randn(batch, 3) * math.pi
        assert torch.allclose(run([x])[0], policy.working(x), rtol=1e-5, atol=1e-6)


def test_every_operator_of_a_region_knows_its_line() -> None:
    _, made = captured(calls_modules)
    assert made.program is not None
    first = calls_modules.__code__.co_firstlineno
    regions = [m for m in made.program.exported.graph_module.modules() if m is not made.program.exported.graph_module]
    for region in regions:
        for node in region.graph.nodes:  # type: ignore[union-attr]
            if node.op == "call_function":
                place = made.program.place(node)
                assert place is not None and place.file == __file__ and place.line > first - 80, node
