from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphaudit.capture import capture, frontend
from graphaudit.capture.control_flow import Bounds
from graphaudit.equivalence.inputs import Sample
from graphaudit.errors import PolicyError
from graphaudit.paths.coverage import Coverage
from graphaudit.paths.walker import Walker
from graphaudit.policy import Policy
from graphaudit.quiet import quiet
from tests.capture.control_flow import constructs, python_constructs, refusals, tensor_constructs
from tests.capture.control_flow.constructs import Holder
from tests.capture.control_flow.refusals import REFUSED


@pytest.fixture(autouse=True)
def only_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the front ends that come first, which refuse most of these or need a guard; it halves the time."""
    monkeypatch.setattr(frontend, "_FRONT_ENDS", frontend._FRONT_ENDS[-1:])


PREDICATED = "torch.export, control flow predicated"
EXACT = [*constructs.EXACT, *python_constructs.EXACT, *tensor_constructs.EXACT]
# Every sign pattern and order of three values, small and large: all paths of every function are among them.
VALUES = (-3.0, -0.4, 0.3, 2.6)
INPUTS = [torch.tensor(v) for v in itertools.product(VALUES, repeat=3)]
# Ways that those leave out: ties, small and large values, NaN.
FURTHER = [
    torch.tensor(v)
    for v in (
        *([v] * 3 for v in (0.0, 0.7, -0.7, 156.0, -156.0)),
        *([1.2, 0.3, -0.3], [1.0, -2.0, 0.5], [0.0, 0.1, 1.9]),
        *([math.nan, 1.0, 1.0], [1.0, math.nan, -1.0]),
    )
]
NOT_WALKED = {  # the ways that no input can take: three elements are looked at, or nobody looks
    "builtins_on_elements": 1,
    "generators_in_reductions": 3,
    "filtered_lists": 1,
    "start_out_of_a_tensor": 1,
}


class Calls(Holder):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def policy(function: Callable[..., Any]) -> Policy:
    return Policy("construct", Calls(function).eval(), (INPUTS[0],))


def line_of(function: Callable[..., Any]) -> tuple[int, str]:
    lines, first = inspect.getsourcelines(function)
    number = next(i for i, line in enumerate(lines) if "# refused: " in line)
    return first + number, lines[number].partition("# refused: ")[2].strip()


def assert_equal_on_all_inputs(built: Policy) -> None:
    captured = capture(built, look_for_frozen=False)
    assert captured.program is not None, captured.blockers[-1]
    run = captured.program.runner()
    for x in [*INPUTS, *FURTHER]:
        try:
            wanted = built.interface.flatten_result(built.working(x))
        except (AssertionError, IndexError, ValueError):  # int() of NaN, an index of 156
            assert x.abs().max() > 100 or x.isnan().any()
            continue
        results = run([x])
        assert not any(bool(guard) for guard in results[len(wanted) :])
        for got, want in zip(results, wanted):
            assert got.dtype == want.dtype and got.shape == want.shape
            assert torch.allclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True), (x, got, want)


@pytest.mark.parametrize("function", EXACT, ids=lambda f: f.__name__)
def test_a_construct_becomes_masks_that_equal_eager_on_every_path(function: Callable[..., Any]) -> None:
    assert_equal_on_all_inputs(policy(function))


@pytest.mark.parametrize("function", EXACT, ids=lambda f: f.__name__)
def test_these_inputs_walk_every_path_of_a_construct(function: Callable[..., Any]) -> None:
    walker = Walker(policy(function))
    coverage = Coverage(walker.recorder.functions, Bounds())
    with quiet():
        for number, x in enumerate([*INPUTS, *FURTHER]):
            run = walker.run(Sample((x,), {}, f"inputs({number})"), number)
            if run is not None:
                coverage.add(run, x.shape)
    summary = coverage.summary()
    assert len(summary.uncovered) == NOT_WALKED.get(function.__name__, 0), summary.uncovered


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_masks_cannot_express_is_refused_at_its_line(function: Callable[..., Any]) -> None:
    captured = capture(policy(function), look_for_frozen=False)
    line, reason = line_of(function)
    assert captured.program is None
    refusal = captured.blockers[-1]
    assert reason in refusal.reason
    assert refusal.place is not None and refusal.place.line == line and refusal.place.file.endswith("refusals.py")


def test_a_bound_that_is_too_low_is_said_by_a_guard() -> None:
    built = policy(refusals.unbounded_while)
    built.loop_bounds = (2,)
    captured = capture(built, look_for_frozen=False)
    assert captured.program is not None and [s.name for s in captured.program.outputs] == ["output", "guard_0"]
    (guard,) = captured.program.interface.guards
    assert guard.condition.startswith(
        f"the loop at refusals.py:{line_of(refusals.unbounded_while)[0]} runs at most 2 times"
    )
    run = captured.program.runner()
    for x in INPUTS:
        result, guard = run([x])
        assert bool(guard) == bool(x.norm() > 4)
        assert bool(guard) or torch.equal(result, built.working(x))


def test_a_bound_may_be_given_for_one_line() -> None:
    built = policy(refusals.unbounded_range)
    line = line_of(refusals.unbounded_range)[0]
    built.loop_bounds = (f"refusals.py:{line + 1}=3",)
    assert capture(built, look_for_frozen=False).program is None
    built.loop_bounds = (f"control_flow/refusals.py:{line}=3",)
    assert capture(built, look_for_frozen=False).program is not None


@pytest.mark.parametrize("text", ["many", "0", "-1", "walker.py=3", "walker.py:x=3", ":4=3"])
def test_a_bound_that_is_none_is_reported(text: str) -> None:
    with pytest.raises(PolicyError, match="is not a loop bound"):
        Bounds.parse([text])


def test_nodes_and_refusals_carry_the_users_lines() -> None:
    captured = capture(policy(constructs.early_returns), look_for_frozen=False)
    assert captured.program is not None and captured.method == PREDICATED
    lines, first = inspect.getsourcelines(constructs.early_returns)
    own = range(first, first + len(lines))
    places = [captured.program.place(n) for n in captured.program.graph.nodes if n.op == "call_function"]
    assert places and all(p is not None and p.file == constructs.__file__ and p.line in own for p in places)


def test_the_module_has_its_own_forward_again() -> None:
    built = policy(constructs.nested_ifs)
    before = {name: dict(vars(part)) for name, part in built.working.module.named_modules()}
    capture(built, look_for_frozen=False)
    after = {name: dict(vars(part)) for name, part in built.working.module.named_modules()}
    assert before.keys() == after.keys() and all(before[n].keys() == after[n].keys() for n in before)
