"""Runs the eager module under observation and records, line by line, what a graph may not repeat.

A capture stops at the first line it cannot follow; this finds them all on the paths walked, because eager runs
through. Four recorders work together: a function mode sees Python conversions of tensors, a dispatch mode sees every
ATen op with its writes, draws and data-dependent shapes, a profiler sees calls of Python's and NumPy's generators and
of clocks, and the module's attributes are compared before and after.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from graphaudit.capture.attributes import AttributeWatch
from graphaudit.capture.events import Event, EventKind, Observation
from graphaudit.capture.recorders import (
    CallRecorder,
    Conversions,
    Dispatches,
    NumpyRandomWatch,
    Recording,
    Storages,
)
from graphaudit.policy import Policy
from graphaudit.policy.isolation import clone_tensors
from graphaudit.policy.seeds import preserved_generators, seed_generators

_SEEDS = 16  # a choice made with probability 0.3 stays unseen in 16 seeds once in 300
_DRAWS = (EventKind.RANDOM, EventKind.PYTHON_RANDOM, EventKind.NUMPY_RANDOM, EventKind.GENERATOR)


def observe(policy: Policy, calls: Sequence[Sequence[Any]] = ()) -> Observation:
    """Run the policy's eager module on its example and on `calls` (positional arguments) and record the events.

    Raises whatever the module raises on the example; a call that the module refuses is passed over.
    """
    importlib.import_module("torch._dynamo")  # torch imports it on first use; not while every call is watched
    policy.interface  # noqa: B018 - the first call makes the policy's own lazy imports
    observation = Observation(events=_inspect(policy.working.module))
    with preserved_generators(), _no_collections():
        for index, args in enumerate([policy.example_args, *calls]):
            try:
                recording = _record(policy, args)
            except Exception:  # user code on the user's own further inputs; Reference reports those that fail
                if index == 0:
                    raise
                continue
            observation.events += recording.events
            for place, count in recording.passes.items():
                observation.passes[place] = max(count, observation.passes.get(place, 0))
        observation.events = list(dict.fromkeys(observation.events))
        observation.changes_with_seed = _changes_with_seed(policy, bool(observation.of(*_DRAWS)))
        observation.changes_between_calls = _changes_between_calls(policy, calls)
    return observation


@contextmanager
def _no_collections() -> Iterator[None]:
    """No garbage collection: its callbacks (test frameworks install some that read the clock) would look as if the
    policy's current line had called them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _record(policy: Policy, args: Sequence[Any]) -> Recording:
    recording = Recording()
    with policy.working.fresh() as module:
        attributes = AttributeWatch(module)
        given = _seeded_arguments(policy, args)
        numpy = NumpyRandomWatch(recording, module)
        with CallRecorder(recording):
            module(*given[0], **given[1])
        attributes.report(recording)
        drew = numpy.changed()
    if drew:
        with policy.working.fresh() as module:
            given = _seeded_arguments(policy, args)
            with NumpyRandomWatch(recording, module):
                module(*given[0], **given[1])
    # torch.cond and torch.while_loop compile themselves when eager calls them, which no mode survives.
    if not any(e.kind is EventKind.CONTROL_FLOW_OP for e in recording.events):
        with policy.working.fresh() as module:
            given = _seeded_arguments(policy, args)
            storages = Storages(module, *given)
            with Conversions(recording, storages), Dispatches(recording, storages):
                module(*given[0], **given[1])
    return recording


def _seeded_arguments(policy: Policy, args: Sequence[Any]) -> tuple[Any, Any]:
    seed_generators(0)
    return clone_tensors(tuple(args)), clone_tensors(dict(policy.example_kwargs))


def _inspect(module: nn.Module) -> list[Event]:
    """What can be seen without running: hooks and scripted parts."""
    events = []
    for name, part in module.named_modules():
        for hook in (*part._forward_hooks.values(), *part._forward_pre_hooks.values()):
            events.append(Event(EventKind.HOOK, _code_place(hook), name or "the policy"))
        if isinstance(part, torch.jit.ScriptModule):
            events.append(Event(EventKind.SCRIPTED, None, name))
        for attribute, value in vars(part).items():
            if isinstance(value, torch.jit.ScriptFunction):
                events.append(Event(EventKind.SCRIPTED, AttributeWatch.use_of(part, attribute), attribute))
    return events


def _code_place(function: Callable[..., Any]) -> Any:
    from graphaudit.graphs.places import place_of

    code = getattr(function, "__code__", None)
    return place_of([(code.co_filename, code.co_firstlineno)]) if code else None


def _changes_with_seed(policy: Policy, draws: bool) -> bool:
    first = _outputs(policy, policy.example_args, 0)
    return any(not _same(first, _outputs(policy, policy.example_args, s)) for s in range(1, _SEEDS if draws else 2))


def _changes_between_calls(policy: Policy, calls: Sequence[Sequence[Any]]) -> bool:
    """Whether a call's result depends on the calls before it: the example, another input, the example again."""
    sequence = [policy.example_args, *calls[:2], policy.example_args]
    results: list[list[torch.Tensor]] = []
    with policy.working.fresh() as module:
        for args in sequence:
            seed_generators(0)
            with _quiet_failures(len(results)):
                result = module(*clone_tensors(tuple(args)), **clone_tensors(dict(policy.example_kwargs)))
                results.append(_flat(policy, result))
    return not _same(results[0], results[-1])


@contextmanager
def _quiet_failures(done: int) -> Iterator[None]:
    """A further input that the module refuses says nothing about state; the example must run."""
    try:
        yield
    except Exception:  # user code; see observe
        if done == 0:
            raise


def _outputs(policy: Policy, args: Sequence[Any], seed: int) -> list[torch.Tensor]:
    seed_generators(seed)
    return _flat(policy, policy.working(*args, **policy.example_kwargs))


def _flat(policy: Policy, result: Any) -> list[torch.Tensor]:
    return [t.clone() for t in policy.interface.flatten_result(result)]


def _same(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> bool:
    return len(left) == len(right) and all(
        a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in zip(left, right)
    )
