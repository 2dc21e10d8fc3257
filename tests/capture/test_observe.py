from __future__ import annotations

import cProfile
import gc
import time
from pathlib import Path

import numpy as np
import torch

from graphaudit.capture import EventKind, observe
from tests.capture import policies as p


def lines_of(function: object, text: str) -> int:
    """The line of this package's `policies.py` that holds `text`."""
    source = Path(p.__file__).read_text().splitlines()
    return next(i for i, line in enumerate(source, 1) if text in line)


def test_every_decision_is_recorded_with_its_line_and_statement() -> None:
    events = observe(p.policy(p.three_decisions)).of(EventKind.BOOL, EventKind.ITEM)
    said = {(e.kind.value, e.statement, e.place.line) for e in events if e.place}
    assert said == {
        ("bool", "if", lines_of(p, "if obs.sum() > 100")),
        ("item", "", lines_of(p, ".max().item()")),
        ("bool", "while", lines_of(p, "while obs.norm() > 50")),
    }


def test_the_place_names_the_expression_to_the_column() -> None:
    event = next(e for e in observe(p.policy(p.three_decisions)).of(EventKind.BOOL) if e.statement == "if")
    assert event.place is not None
    line = Path(event.place.file).read_text().splitlines()[event.place.line - 1]
    assert line[event.place.column : event.place.end_column] == "obs.sum() > 100"


def test_python_and_numpy_randomness_are_found_at_their_lines() -> None:
    drawn = observe(p.policy(p.random_scale))
    assert [e.place.line for e in drawn.of(EventKind.PYTHON_RANDOM) if e.place] == [lines_of(p, "random.betavariate")]
    assert drawn.changes_with_seed
    drawn = observe(p.policy(p.numpy_noise))
    assert [e.place.line for e in drawn.of(EventKind.NUMPY_RANDOM) if e.place] == [lines_of(p, "np.random.gamma")]
    assert drawn.changes_with_seed


def test_clocks_and_draws_are_found() -> None:
    assert observe(p.policy(p.stamped)).of(EventKind.CLOCK)
    sampled = observe(p.policy(p.samples))
    assert [e.detail for e in sampled.of(EventKind.RANDOM)] == ["aten::normal.Tensor_Tensor"]
    assert sampled.changes_with_seed and not sampled.changes_between_calls


def test_state_is_found_in_buffers_numbers_and_lists() -> None:
    for function, kind, name in (
        (p.remembers, EventKind.WRITE_BUFFER, "memory"),
        (p.counts, EventKind.WRITE_ATTRIBUTE, "steps"),
        (p.collects, EventKind.WRITE_ATTRIBUTE, "history"),
    ):
        observation = observe(p.policy(function), [p.draws(1)])
        assert {e.detail for e in observation.of(kind)} == {name}
        assert observation.changes_between_calls


def test_a_clean_policy_has_no_events() -> None:
    observation = observe(p.policy(p.clean), [p.draws(1)])
    assert observation.events == []
    assert not observation.changes_between_calls and not observation.changes_with_seed


def test_observing_leaves_the_module_and_the_generators_alone() -> None:
    policy = p.policy(p.collects)
    torch.manual_seed(3)
    np.random.seed(3)
    before = (torch.get_rng_state(), np.random.get_state()[1].tolist(), policy.module.memory.clone())
    observe(policy, [p.draws(1)])
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]
    assert policy.module.history == [] and torch.equal(policy.module.memory, before[2])


def test_a_profiler_that_runs_goes_on_afterwards() -> None:
    profile = cProfile.Profile()
    policy = p.policy(p.clean)
    profile.enable()
    observe(policy)
    sorted([3, 1, 2])
    profile.disable()
    assert any(entry.code == "<built-in method builtins.sorted>" for entry in profile.getstats())


def test_what_runs_at_a_garbage_collection_is_no_part_of_the_policy() -> None:
    def reads_the_clock(phase: str, info: dict[str, int]) -> None:
        time.perf_counter()

    threshold = gc.get_threshold()
    gc.callbacks.append(reads_the_clock)
    gc.set_threshold(1)
    try:
        assert observe(p.policy(p.clean)).events == []
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(reads_the_clock)
