"""lift_state."""

from __future__ import annotations

import pytest
import torch

from graphaudit.capture import captured_steps
from graphaudit.passes.lift_state import LiftState
from graphaudit.rewrite.structure import find_malformation
from tests.helpers import make_program
from tests.passes.helpers import TARGET, reasons
from tests.stateful import (
    OBS,
    Arrays,
    BufferGru,
    Cache,
    Counter,
    Idle,
    Objects,
    Ring,
    TupleLstm,
    episode,
    policy_of,
    thread,
)


def program_of(module):
    made, captured = captured_steps(policy_of(module))
    assert made is not None
    return captured.program


def kinds(program):
    signature = program.exported.graph_signature
    return signature.buffers_to_mutate, list(signature.user_inputs), list(signature.user_outputs)


def test_buffers_that_are_written_become_inputs_and_outputs() -> None:
    program = program_of(BufferGru())
    assert set(kinds(program)[0].values()) == {"hidden"} and len(program.held_state) == 1
    result = LiftState().run(program.copy(), TARGET)
    assert result.changed and not result.left
    assert [s.name for s in result.artifact.inputs] == ["obs", "hidden"]
    assert [s.name for s in result.artifact.outputs] == ["output", "hidden_next"]
    mutated, inputs, outputs = kinds(result.artifact)
    assert not mutated and len(inputs) == 2 and len(outputs) == 2
    assert find_malformation(program, result.artifact) is None
    assert len(program.held_state) == 1, "the program it came from is as it was"


@pytest.mark.filterwarnings("ignore:The tensor attribute self.last was assigned during export")
def test_a_write_that_no_result_depends_on_is_left_alone() -> None:
    _, program = make_program(Idle(), (OBS,))
    result = LiftState().run(program.copy(), TARGET)
    assert not result.changed
    assert reasons(result) == ["no result depends on what is written to calls"]


def test_a_second_run_changes_nothing() -> None:
    once = LiftState().run(program_of(Objects()), TARGET).artifact
    before = str(once.graph)
    again = LiftState().run(once.copy(), TARGET)
    assert not again.changed and str(again.artifact.graph) == before


@pytest.mark.parametrize("module", [BufferGru, TupleLstm, Counter, Objects, Arrays, Cache, Ring])
def test_an_episode_gives_what_the_module_gives(module) -> None:
    """To 1e-6, and from states that are huge, negative and not finite to the last bit of the graph before."""
    held = program_of(module())
    lifted = LiftState().run(held.copy(), TARGET).artifact
    calls, wanted = episode(module())
    initial = [part.initial for part in held.interface.state]
    for one, other in zip(thread(lifted.runner(), initial, calls), wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
    for value in (0.0, -1.0, 1e30, torch.nan, torch.inf):
        odd = [torch.full_like(t, value) if t.is_floating_point() else t for t in initial]
        pairs = zip(lifted.runner()([OBS, *odd]), held.runner()([OBS, *odd]), strict=True)
        assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)


def test_the_sites_are_the_lines_that_write() -> None:
    module = BufferGru()
    policy = policy_of(module)
    from graphaudit.capture import EventKind, observe

    places = [(e.detail, e.place) for e in observe(policy).of(EventKind.WRITE_BUFFER)]
    _, captured = captured_steps(policy, (), places)
    sites = LiftState().run(captured.program, TARGET).rewritten
    assert [s.place.line for s in sites] == [p.line for _, p in places]
