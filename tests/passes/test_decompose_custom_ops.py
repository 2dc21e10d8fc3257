"""decompose_custom_ops puts the ATen operators of a Python kernel where the custom operator stood."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from graphaudit.passes.decompose_custom_ops import DecomposeCustomOps
from tests.passes.helpers import Unary, ops, reasons, run_pass

INF, NAN = float("inf"), float("nan")
AWKWARD = torch.tensor([[0.0, -1.0, 1e30], [NAN, INF, -INF], [0.5, -0.0, 3e38]])
_LIBRARY = torch.library.Library("decompose_custom_ops_test", "FRAGMENT")


@torch.library.custom_op("decompose_custom_ops_test::symexp", mutates_args=())
def symexp(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.sign(x) * (torch.exp(torch.abs(x) * scale) - 1)


@torch.library.custom_op("decompose_custom_ops_test::both", mutates_args=())
def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return symexp(x, 0.5) + 1, x.amax(-1)


@torch.library.custom_op("decompose_custom_ops_test::through_numpy", mutates_args=())
def through_numpy(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.sinc(x.numpy()))


@torch.library.custom_op("decompose_custom_ops_test::accumulate", mutates_args=("total",))
def accumulate(total: torch.Tensor, x: torch.Tensor) -> None:
    total.add_(x * 2)


@torch.library.custom_op("decompose_custom_ops_test::writes", mutates_args=())
def writes(x: torch.Tensor, steps: int) -> torch.Tensor:
    out = torch.zeros_like(x)
    for step in range(steps):
        out[..., step % 3] += x[..., 0]
        out = out * 0.5 + 1
    return out


def accumulated(x, part=slice(None)):
    total = x.clone()
    accumulate(total[:, part], x[:, part])
    return total


symexp.register_fake(lambda x, scale: torch.empty_like(x))
both.register_fake(lambda x: (torch.empty_like(x), x.new_empty(x.shape[:-1])))
writes.register_fake(lambda x, steps: torch.empty_like(x))
through_numpy.register_fake(lambda x: torch.empty_like(x))
_LIBRARY.define("slope(Tensor x) -> Tensor")
_LIBRARY.impl("slope", lambda x: torch.where(x > 0, x, torch.tensor([0.1, 0.2, 0.3]) * x), "CPU")
_LIBRARY.impl("slope", lambda x: torch.empty_like(x), "Meta")
_LIBRARY.define("thrice(Tensor x) -> Tensor")
_LIBRARY.impl("thrice", lambda x: x * 3, "CompositeExplicitAutograd")
custom = torch.ops.decompose_custom_ops_test

CALLS = {
    "custom_op": (lambda x: symexp(x, 0.7), ["abs", "exp", "mul", "mul", "sign", "sub"]),
    "one inside another, several results": (lambda x: both(x), None),
    "Library.impl, with a constant": (custom.slope, None),
    "it writes to its argument": (lambda x: accumulated(x), None),
    "it writes to a slice": (lambda x: accumulated(x, slice(1, 3)), None),
    "its kernel writes in place": (lambda x: writes(x, 4), None),
    "a kernel for every device": (custom.thrice, ["mul"]),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dynamic", [None, ({0: "batch"},)])
def test_the_same_to_the_last_bit(call, dynamic):
    function, expected = CALLS[call]
    module = Unary(function)
    program = run_pass(DecomposeCustomOps, module, (AWKWARD,), dynamic).artifact
    assert not any("decompose_custom_ops_test" in str(n.target) for n in program.graph.nodes)
    assert expected is None or sorted(ops(program)) == expected
    for x in (AWKWARD, torch.randn(5, 3)) if dynamic else (AWKWARD,):
        eager = module(x)
        for got, want in zip(program.runner()([x]), eager if isinstance(eager, tuple) else (eager,), strict=True):
            assert torch.equal(got.view(torch.int32), want.view(torch.int32))


def test_a_kernel_that_leaves_pytorch_stays():
    result = run_pass(DecomposeCustomOps, Unary(lambda x: through_numpy(x)), (torch.rand(2, 3),))
    assert not result.changed
    (reason,) = reasons(result)
    assert reason.startswith("its kernel cannot be traced: ")


def test_a_write_to_a_part_that_is_no_slice_stays():
    result = run_pass(DecomposeCustomOps, Unary(lambda x: accumulated(x, slice(0, 3, 2))), (torch.rand(2, 3),))
    assert reasons(result) == ["it writes to a list of tensors, or to a part that is no slice"]


def test_a_compiled_kernel_stays():
    torchvision = pytest.importorskip("torchvision")
    boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9]])
    result = run_pass(DecomposeCustomOps, Unary(lambda b: torchvision.ops.nms(b, b[:, 2], 0.5)), (boxes,))
    (reason,) = reasons(result)
    assert reason == (
        "its kernel is compiled, so what it computes cannot be seen; "
        "a plain version of it can be registered with graphaudit.register_custom_op"
    )


def test_a_graph_without_custom_operators_stays():
    result = run_pass(DecomposeCustomOps, nn.Sequential(nn.Linear(3, 2), nn.Tanh()), (AWKWARD,))
    assert not result.changed and not result.left
