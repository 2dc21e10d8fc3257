"""Whether the search gets to the ways that a few inputs leave out, and says which it did not get to."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from graphaudit.equivalence.certificate import certify
from graphaudit.equivalence.certificate import walked as said_of
from graphaudit.paths import walk
from graphaudit.policy import Policy
from graphaudit.policy.isolation import Fingerprint
from tests.equivalence.policies import runner
from tests.paths.policies import (
    ElementBelow,
    Mode,
    Nested,
    Static,
    Steps,
    SumAbove,
    Unreachable,
    Weights,
    near_zero,
    walked,
)


def said(found: object) -> str:
    return said_of(found.coverage)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("make", "extra"),
    [(SumAbove, ()), (ElementBelow, ()), (Nested, ()), (Mode, (torch.tensor(0),))],
    ids=["sum", "element", "nested", "integer"],
)
def test_a_wrong_rewrite_of_a_rare_way_is_caught(make: Callable[..., nn.Module], extra: tuple[torch.Tensor]) -> None:
    options = {} if extra else {"inputs": near_zero}
    reference, found = walked(make(), torch.zeros(1, 4), *extra, **options)
    assert found.coverage.complete, said(found)
    assert reference.check("right", runner(make())).holds
    wrong = reference.check("wrong", runner(make(right=False)))
    assert not wrong.holds and "path(" in wrong.note


def test_without_the_search_it_would_pass() -> None:
    from graphaudit.equivalence.inputs import collect
    from graphaudit.equivalence.reference import Reference

    policy = Policy("rare.py:build", Nested().eval(), (torch.zeros(1, 4),), inputs=near_zero)
    assert Reference(policy, collect(policy, 24)).check("wrong", runner(Nested(right=False))).holds


@pytest.mark.parametrize("limit", [7.35, 7.25])
def test_a_threshold_that_is_a_little_off_is_caught(limit: float) -> None:
    reference, _ = walked(SumAbove(), inputs=near_zero)
    assert not reference.check("off", runner(SumAbove(limit))).holds


def test_the_largest_number_of_passes_is_reached() -> None:
    reference, found = walked(Steps(), inputs=near_zero)
    assert found.coverage.complete, said(found)
    assert reference.check("right", runner(Steps())).holds
    assert not reference.check("one pass too few", runner(Steps(4))).holds


def test_a_way_that_is_not_found_is_said_with_its_line() -> None:
    reference, found = walked(Unreachable())
    assert (found.coverage.covered, found.coverage.total) == (1, 2)
    open_ = found.coverage.uncovered[0]
    assert open_.expression == "y.sum() < -1" and open_.outcome == "true" and open_.place.file.endswith("policies.py")
    certificate = certify(
        reference.policy, "onnx", reference, [reference.check("again", runner(Unreachable()))], (), found.coverage
    )
    assert certificate.statement.endswith(f"; paths covered: 1 of 2, policies.py:{open_.place.line} never true")
    reference.policy.file = Path(open_.place.file)
    certificate = certify(reference.policy, "onnx", reference, certificate.verdicts, (), found.coverage)
    assert certificate.statement.endswith(f"; paths covered: 1 of 2, line {open_.place.line} never true")
    assert certificate.paths == found.coverage


def test_what_python_decides_alone_is_no_path() -> None:
    _, found = walked(Static())
    assert found.coverage.total == 0 and not found.found


def test_what_weights_decide_alone_is_no_path() -> None:
    _, found = walked(Weights(), inputs=near_zero)
    assert (found.coverage.covered, found.coverage.total) == (2, 2), said(found)


def test_found_inputs_have_a_family_of_their_own_and_are_the_same_again() -> None:
    reference, found = walked(Nested(), inputs=near_zero)
    again = walked(Nested(), inputs=near_zero)[1]
    assert {s.family for s in found.found} == {"path"}
    assert [s.origin for s in found.found] == [s.origin for s in again.found]
    for one, other in zip(found.found, again.found):
        assert all(torch.equal(a, b) for a, b in zip(one.tensors, other.tensors))
    assert len(reference.samples) == 24 + len(found.found)


def test_the_module_is_left_alone() -> None:
    module = Nested().eval()
    before = Fingerprint(module)
    attributes = dict(vars(module))
    walked(module)
    before.verify()
    assert vars(module) == attributes and "forward" not in vars(module)


class Loops(nn.Module):
    """One loop of each kind that data decides."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        while y.norm() > 1.0:
            y = y * 0.5
        for _ in range(int(x[0, 0])):
            y = y + 1
        for _ in range(6):
            if y.sum() > 20:
                break
            y = y * 1.5
        while True:
            y = y - 1
            if y.sum() < 0:
                return y


def test_loops_run_never_once_and_more() -> None:
    _, found = walked(Loops(), inputs=near_zero)
    assert found.coverage.complete, said(found)
    # 3 for `while`, 3 for range(int(n)), 3 for the loop with a break and 2 for its `if`, 2 for `while True` and 2.
    assert found.coverage.total == 15


def test_a_stated_bound_is_a_way_of_its_own() -> None:
    module = Loops().eval()
    policy = Policy("rare.py:build", module, (torch.zeros(1, 4),), loop_bounds=("7",))
    from graphaudit.equivalence.inputs import collect
    from graphaudit.equivalence.reference import Reference

    reference = Reference(policy, collect(policy, 12))
    coverage = walk(policy, reference.samples).coverage
    assert coverage.total == 18
    assert all(u.outcome == "runs 7 times" for u in coverage.uncovered)


class Helpers(nn.Module):
    """Decisions in a method, a closure, a lambda, a list of modules and a decorated function."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.ReLU(), Inner()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def inside(v: torch.Tensor) -> torch.Tensor:
            return v if v.max() < 33 else v - 1

        limits = Limits(float(x[0, 3]))
        x = limits(x)
        pick = lambda v: v if v.min() > -44 else v + 1  # noqa: E731
        return self.parts[1](wrapped(self.method(pick(inside(x)))))

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if 0 < x[0, 1].item() < 5 and x[0, 2] != 7 else x


class Limits:
    """An object of the policy's own: a decision in its `__init__`, and one in its `__call__`."""

    def __init__(self, edge: float) -> None:
        self.edge = edge if edge > 17 else 1.0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 200 * self.edge else x


class Inner(nn.Module):
    """A branch in a part of the policy."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ok = bool((x > -70).all())
        same = (x > 90).any().item() == (x[0, 0] > 90).item()
        return x if ok and same else x * 0.5


@torch.no_grad()
def wrapped(x: torch.Tensor) -> torch.Tensor:
    values = [v for v in x[0].tolist() if v > 60]
    return x + len(values)


def test_decisions_are_followed_into_what_forward_calls() -> None:
    _, found = walked(Helpers(), inputs=near_zero)
    assert {u.expression for u in found.coverage.uncovered} <= {"x[0, 2] != 7"}, said(found)
    assert found.coverage.total >= 18 and not found.coverage.unknown


class Guarded(nn.Module):
    """Ways that end in an exception."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert torch.isfinite(x).all()
        if x.max() > 50 or x.min() < -50:
            raise ValueError("out of range")
        return x


def test_ways_that_raise_do_not_count() -> None:
    _, found = walked(Guarded(), inputs=near_zero)
    assert (found.coverage.covered, found.coverage.total) == (3, 3)


def _from_text() -> Callable[[torch.Tensor], torch.Tensor]:
    space: dict[str, object] = {}
    code = compile("def f(x):\n    return x if x.sum() > 0 else -x\n", "/nowhere/made.py", "exec")
    exec(code, space)
    return space["f"]  # type: ignore[return-value]


class Sourceless(nn.Module):
    """Decides in a function whose source is nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.function = _from_text()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def test_code_that_cannot_be_followed_is_said() -> None:
    _, found = walked(Sourceless())
    assert found.coverage.unknown == ["made.py:2 decides in code whose source is not followed"]
    assert not found.coverage.complete and "made.py:2" in said(found)


class Legal(nn.Module):
    """Looks up what an index names; nothing but the seen range is known to be valid."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, x: torch.Tensor, index: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.table(index).sum(0) * mask
        return y if (x.sum() > 100 and bool(mask.any())) else y + x


def test_found_inputs_are_of_the_kind_that_was_seen() -> None:
    def inputs(seed: int) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator().manual_seed(seed)
        index = torch.randint(2, 6, (3,), generator=generator)
        return torch.zeros(1, 4), index, torch.rand(4, generator=generator) > 0.5

    _, found = walked(Legal(), *inputs(0), inputs=inputs)
    assert found.coverage.complete, said(found)
    for sample in found.found:
        _, index, mask = sample.tensors
        assert mask.dtype is torch.bool and index.dtype is torch.int64
        assert int(index.min()) >= 0 and int(index.max()) <= 9


def test_loops_that_may_never_end_do_not_stop_the_search() -> None:
    class Settles(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            while not x.abs().max() < 1:  # NaN and infinity never get there
                x = x * 0.5
            return x if x[0, 0] < 0.75 else -x

    started = time.perf_counter()
    _, found = walked(Settles(), inputs=near_zero)
    assert found.coverage.complete, said(found)
    assert time.perf_counter() - started < 30
