"""Random programs: eager against their masks, run eagerly (many), and captured as graphs (some)."""

from __future__ import annotations

import math
import tempfile
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

from graphaudit.capture import capture
from graphaudit.capture.control_flow import Bounds, Refused, Regions, predicated
from graphaudit.policy import Policy
from tests.capture.control_flow.programs import VALUES, module_of, statements

# What these programs may hold and masks cannot express.
REFUSED = ("aliased-write", "list-length-differs")
QUICK = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None, phases=[Phase.generate])


def eager(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor | None:
    """The result; None where the program raises, as it does where it computes with None."""
    try:
        result: torch.Tensor = module(x.clone())
    except (AssertionError, TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError):
        return None
    return result


def inputs_of(module: torch.nn.Module) -> list[tuple[torch.Tensor, torch.Tensor | None]]:
    """Two inputs and eager's results, which differ where those of the program do: other results, other paths."""
    results = [(x, eager(module, x)) for x in VALUES]
    return sorted(results, key=lambda r: math.inf if r[1] is None else float(r[1].double().sum()))[6::14]


def assert_masks_equal_eager(lines: list[str]) -> None:
    """Both sides of every branch run, on tensors that hold values: what a graph would compute, without a graph."""
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        module = module_of(lines, folder)
        inputs = inputs_of(module)
        with predicated(module, Bounds(), Regions()):
            for x, want in inputs:
                try:
                    got, guards, *_ = module(x.clone())
                except Refused as refused:
                    assert refused.kind in REFUSED, (refused.reason, "\n".join(lines))
                    return
                except AssertionError:  # one that Python decides on, as in eager
                    assert want is None, "\n".join(lines)
                    continue
                assert_same(got, want, any(map(bool, guards)), x, lines)


def assert_same(got: Any, want: torch.Tensor | None, guarded: bool, x: torch.Tensor, lines: list[str]) -> None:
    said = (x, got, want, guarded, "\n".join(lines))
    assert guarded == (want is None), said
    assert want is None or torch.allclose(got.to(want.dtype), want, rtol=1e-4, atol=1e-5, equal_nan=True), said


def run_programs(count: int, part: int) -> None:
    @seed(part)
    @settings(QUICK, max_examples=count)
    @given(statements(2, False))
    def test(lines: list[str]) -> None:
        assert_masks_equal_eager(lines)

    test()


@pytest.mark.parametrize("part", range(5))
def test_random_programs_equal_their_masks(part: int) -> None:
    run_programs(100, part)


@pytest.mark.long
@pytest.mark.parametrize("part", range(200))
def test_twenty_thousand_random_programs_equal_their_masks(part: int) -> None:
    run_programs(100, part)


@seed(0)
@settings(QUICK, max_examples=12)
@given(statements(2, False))
def test_a_random_program_is_captured_exactly_or_refused(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        module = module_of(lines, folder)
        if eager(module, VALUES[0]) is None:
            return
        policy = Policy("program", module, (VALUES[0],))
        captured = capture(policy, look_for_frozen=False)
        if captured.program is None:
            assert captured.blockers[-1].kind in REFUSED, (lines, captured.blockers[-1])
            return
        run = captured.program.runner()
        for x in VALUES:
            got, *guards = run([x])
            assert_same(got, eager(policy.working, x), any(map(bool, guards)), x, lines)
