"""insert_nan_guards: eager's NaN in ONNX Runtime, where its kernels lose it."""

from __future__ import annotations

import msgspec
import pytest
import torch
import torch.nn.functional as F

from graphaudit.passes.insert_nan_guards import InsertNanGuards
from tests.helpers import make_program
from tests.passes.helpers import TARGET, Unary, assert_equivalent_where_finite, ops, run_pass
from tests.passes.translated import assert_runs_alike

INF, NAN = float("inf"), float("nan")
AWKWARD = torch.tensor(
    [
        [NAN, 1.0, 2.0, -3.0, 4.0, 5.0, 0.0, -0.0],
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, NAN],
        [1.0, INF, NAN, -INF, NAN, 6.0, 7.0, 0.0],
        [NAN] * 8,
        [INF, -INF, 3e38, -3e38, 0.0, 1.0, 2.0, 7.0],
        [-INF] * 8,
    ]
)
CALLS = {
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(0, keepdim=True),
    "amax of all": lambda x: x.amax(),
    "max": lambda x: x.max(),
    "min with index": lambda x: tuple(x.min(-1)),
    "max with index": lambda x: tuple(x.max(1, keepdim=True)),
    "argmax": lambda x: x.argmax(-1),
    "argmin": lambda x: x.argmin(0),
    "argmax of all": lambda x: x.argmax(),
    "maximum": lambda x: torch.maximum(x, x.flip(-1)),
    "minimum": lambda x: torch.minimum(x, torch.ones(())),
    "clamp": lambda x: x.clamp(-1, 3),
    "clamp from below": lambda x: x.clamp(min=0.5),
    "relu": torch.relu,
    "relu6": F.relu6,
    "max_pool1d": lambda x: F.max_pool1d(x[:, None], 3, 2, 1),
    "max_pool2d": lambda x: F.max_pool2d(x[None], 2),
}


def aware(call):
    """A policy that looks for NaN, and calls `call` on the same values."""
    return Unary(lambda x: (x.isnan(), *(r if isinstance(r := call(x), tuple) else (r,))))


LOSES_INFINITY = ("clamp from below", "max_pool1d", "max_pool2d")  # ONNX Runtime: the largest finite number instead


@pytest.mark.parametrize("call", CALLS)
def test_nan_survives_in_onnx_runtime(call):
    module = aware(CALLS[call])
    program = run_pass(InsertNanGuards, module, (AWKWARD,)).artifact
    assert_equivalent_where_finite(module, program, AWKWARD)
    assert_runs_alike(program, (AWKWARD.clamp(-9, 9) if call in LOSES_INFINITY else AWKWARD,))


def test_without_guards_onnx_runtime_loses_it():
    program = run_pass(InsertNanGuards, Unary(lambda x: x.amax(-1)), (AWKWARD,)).artifact
    with pytest.raises(AssertionError, match="not equal"):
        assert_runs_alike(program, (AWKWARD,))


def test_several_batches_and_float64():
    program = run_pass(InsertNanGuards, aware(CALLS["max with index"]), (AWKWARD,), ({0: "batch"},)).artifact
    assert_equivalent_where_finite(aware(CALLS["max with index"]), program, AWKWARD[:1])
    double = AWKWARD.double()
    program = run_pass(InsertNanGuards, aware(CALLS["amax"]), (double,)).artifact
    assert_equivalent_where_finite(aware(CALLS["amax"]), program, double)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.amax(-1),  # says nothing of NaN
        lambda x: (x.isnan(), torch.where(x.isnan(), 0.0, x).amax(-1)),
        lambda x: (x.isnan(), torch.where(~x.isnan(), x, 0.0).amax(-1)),
        lambda x: torch.nan_to_num(x).amax(-1),
        lambda x: x.masked_fill(x != x, 0.0).argmax(-1),
        lambda x: (x.isnan(), (x > 0).long().argmax(-1)),
    ],
)
def test_no_guard_where_nan_cannot_reach(function):
    result = run_pass(InsertNanGuards, Unary(function), (AWKWARD,))
    assert not result.changed and not result.left


def test_a_direction_that_can_be_undefined_is_guarded():
    module = Unary(lambda x: (x / x.norm(dim=-1, keepdim=True)).argmax(-1))
    result = run_pass(InsertNanGuards, module, (torch.zeros(2, 3),))
    assert result.changed and "argmax" in ops(result.artifact)


def test_what_the_target_keeps_stays():
    keeping = msgspec.structs.replace(TARGET, keeps_nan=("Relu", "ReduceMax"))
    _, program = make_program(aware(lambda x: (x.relu(), x.amax(-1), x.amin(-1))), (AWKWARD,))
    result = InsertNanGuards().run(program.copy(), keeping)
    assert [site.node for site in result.rewritten] == ["amin"]
