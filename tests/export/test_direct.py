"""The short way into a call is taken where nothing has to be converted, and gives what the long way gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphaudit.errors import GuardError
from graphaudit.export.call import Signature
from graphaudit.export.manifest import Branch, Call, Fixed, Input, Leaf, Parameter

STATE, BIAS, SHIFT = (
    Input(name=name, role="argument", dtype="float32", shape=shape, path=name)
    for name, shape in (("state", ["batch", 4]), ("bias", [2]), ("shift", ["batch"]))
)


def parameter(name: str, kind: str = "POSITIONAL_OR_KEYWORD", default: Fixed | None = None) -> Parameter:
    return Parameter(name=name, kind=kind, default=default)


def nested() -> Signature:
    """policy(obs, greedy=True, mask=None, *, shift), where obs = {"state": tensor, "bias": (tensor,)}."""
    bias = Branch(container="tuple", items=[Leaf(name="bias")])
    obs = Branch(container="dict", items=[Leaf(name="state"), bias], keys=["state", "bias"])
    parameters = [
        parameter("obs"),
        parameter("greedy", default=Fixed(value=True)),
        parameter("mask", default=Fixed(value=None)),
        parameter("shift", "KEYWORD_ONLY"),
    ]
    call = Call(parameters, [obs, Fixed(value=True)], {"shift": Leaf(name="shift")}, Leaf(name="y"))
    return Signature(call, [STATE, BIAS, SHIFT])


def obs(rows: int = 3) -> dict:
    return {"state": np.ones((rows, 4), np.float32), "bias": (np.zeros(2, np.float32),)}


def shift(rows: int = 3) -> np.ndarray:
    return np.zeros(rows, np.float32)


@pytest.fixture
def signature() -> Signature:
    learned = nested()
    learned.arrays((obs(),), {"shift": shift()})
    return learned


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((obs(),), {"shift": shift()}),
        ((obs(), True), {"shift": shift()}),
        ((), {"shift": shift(), "obs": obs()}),
        ((), {"greedy": True, "shift": shift(), "obs": obs()}),
    ],
)
def test_taken(signature, args, kwargs):
    short = signature._direct.arrays(args, kwargs)
    long = nested().arrays(args, kwargs)
    assert short is not None
    assert short[1] is long[1] is False
    assert all(np.array_equal(a, b) for a, b in zip(short[0], long[0], strict=True))


def test_tensors_are_read_where_they_are(signature):
    state = torch.ones(3, 4)
    arrays, as_tensors = signature._direct.arrays(({**obs(), "state": state},), {"shift": shift()})
    assert as_tensors
    assert np.shares_memory(arrays[0], state.numpy())


@pytest.mark.parametrize(
    ("args", "kwargs", "accepted"),
    [
        ((obs(2),), {"shift": shift(2)}, True),  # sizes that were not seen
        ((obs(2),), {"shift": shift(3)}, False),  # sizes that do not belong together
        ((obs(), False), {"shift": shift()}, False),
        ((obs(), 1), {"shift": shift()}, False),
        ((obs(), True, None), {"shift": shift()}, True),  # the default given
        ((obs(), True, np.zeros(3)), {"shift": shift()}, False),
        ((obs(),), {}, False),
        ((), {"shift": shift()}, False),
        ((obs(), True, None, shift()), {}, False),
        ((obs(),), {"shift": shift(), "more": 1}, False),
        ((obs(),), {"shift": shift(), "obs": obs()}, False),
        (({**obs(), "more": shift()},), {"shift": shift()}, False),
        (({"state": obs()["state"]},), {"shift": shift()}, False),
        (({**obs(), "bias": [np.zeros(2, np.float32)]},), {"shift": shift()}, False),
        (({**obs(), "bias": (np.zeros(2),)},), {"shift": shift()}, False),  # float64
        (({**obs(), "bias": (np.zeros(2, ">f4"),)},), {"shift": shift()}, True),
        (({**obs(), "bias": (torch.zeros(2, requires_grad=True),)},), {"shift": shift()}, True),
        (({**obs(), "bias": (torch.zeros(2).bfloat16(),)},), {"shift": shift()}, False),
        (({**obs(), "bias": (1.0,)},), {"shift": shift()}, False),
    ],
)
def test_all_else_goes_the_long_way(signature, args, kwargs, accepted):
    assert signature._direct.arrays(args, kwargs) is None
    if accepted:
        signature.arrays(args, kwargs)
    else:
        with pytest.raises(GuardError):
            signature.arrays(args, kwargs)


def test_positional_only_parameters_have_no_name():
    signature = Signature(Call([parameter("x", "POSITIONAL_ONLY")], [Leaf(name="state")], {}, Leaf(name="y")), [STATE])
    x = obs()["state"]
    signature.arrays((x,), {})
    assert signature._direct.arrays((x,), {}) is not None
    with pytest.raises(GuardError):
        signature.arrays((), {"x": x})


def test_a_policy_without_tensors_and_one_with_more_arguments_go_the_long_way():
    for signature in (
        Signature(Call([], [], {}, Leaf(name="y")), []),
        Signature(Call([parameter("xs", "VAR_POSITIONAL")], [Leaf(name="state")], {}, Leaf(name="y")), [STATE]),
    ):
        args = (obs()["state"],) if signature.signature.parameters else ()
        signature.arrays(args, {})
        assert signature._direct.arrays(args, {}) is None
