"""fuse_layout_operators on small models, each run in ONNX Runtime before and after."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphaudit.graphs.layouts import Reshape, Transpose, keeps_order
from graphaudit.passes.fuse_layout_operators import FuseLayoutOperators
from graphaudit.runtimes.onnxruntime import runner
from tests.export.targets import ONNXRUNTIME
from tests.passes.models import AWKWARD, interface, ops, outputs, parse

# name: graph, its constants, the operators that remain
CHAINS = {
    "slice, squeeze and unsqueeze to nothing": (
        """
        g (float[1, 6] x) => (float[1, 6] y) {
            a = Slice(x, zero, one, zero)
            b = Squeeze(a, zero)
            c = Unsqueeze(b, zero)
            y = Relu(c)
        }
        """,
        {"zero": np.array([0]), "one": np.array([1])},
        ["Relu"],
    ),
    "a transpose of a dimension of size 1": (
        """
        g (float[6, 1, 4] x) => (float[1, 6, 2, 2] y) {
            a = Transpose <perm = [1, 0, 2]> (x)
            y = Reshape(a, s)
        }
        """,
        {"s": np.array([1, 6, 2, 2])},
        ["Reshape"],
    ),
    "two transposes that undo each other": (
        """
        g (float[2, 3, 4] x) => (float[2, 3, 4] y) {
            a = Transpose <perm = [2, 0, 1]> (x)
            b = Transpose <perm = [1, 2, 0]> (a)
            y = Neg(b)
        }
        """,
        {},
        ["Neg"],
    ),
    "the only entry of a dimension": (
        """
        g (float[3, 1, 4] x) => (float[1, 12] y) {
            a = Gather <axis = 1> (x, last)
            y = Flatten <axis = 0> (a)
        }
        """,
        {"last": np.array(-1)},
        ["Reshape"],
    ),
    "one dimension that varies": (
        """
        g (float[batch, 6] x) => (float[batch, 2, 3] y) {
            a = Unsqueeze(x, one)
            b = Squeeze(a, one)
            y = Reshape(b, s)
        }
        """,
        {"one": np.array([1]), "s": np.array([0, 2, 3])},
        ["Reshape"],
    ),
    "read inside a branch": (
        """
        g (float[1, 4] x, bool c) => (float[1, 4] y) {
            a = Squeeze(x, zero)
            b = Unsqueeze(a, zero)
            y = If (c) <
                then_branch = t () => (float[1, 4] u) { u = Neg(b) },
                else_branch = e () => (float[1, 4] v) { v = Abs(b) }
            >
        }
        """,
        {"zero": np.array([0])},
        ["If"],
    ),
}


def run(model):
    """The result on a copy; a second run changes nothing."""
    result = FuseLayoutOperators().run(model.copy(), ONNXRUNTIME)
    assert interface(result.artifact) == interface(model)
    assert not FuseLayoutOperators().run(result.artifact.copy(), ONNXRUNTIME).changed
    return result


def values(model):
    """Inputs with every element different; dimensions that vary are 5."""
    made = []
    for info in model.proto.graph.input:
        shape = [d.dim_value or 5 for d in info.type.tensor_type.shape.dim]
        made.append(torch.tensor(True) if not shape else torch.arange(np.prod(shape)).reshape(shape).float())
    return made


@pytest.mark.parametrize("name", CHAINS)
def test_chains(name):
    text, constants, expected = CHAINS[name]
    model = parse(text, **constants)
    result = run(model)
    assert ops(result.artifact) == expected and result.changed
    for before, after in zip(runner(model)(values(model)), runner(result.artifact)(values(model)), strict=True):
        assert torch.equal(before, after)


def test_places_and_constants_follow():
    text, constants, _ = CHAINS["a transpose of a dimension of size 1"]
    result = run(parse(text, places={"a": 3, "y": 4}, **constants))
    assert result.artifact.places["y"].line == 4
    assert {s.place.line for s in result.rewritten} == {3, 4}
    (shape,) = result.artifact.proto.graph.initializer  # the constant that nobody reads any more is gone
    assert shape.name == "y_shape_0"


@pytest.mark.parametrize(
    ("body", "constants"),
    [
        ("a = Transpose <perm = [1, 0]> (x)  y = Relu(a)", {}),
        ("a = Transpose <perm = [1, 0]> (x)  y = Reshape(a, s)", {"s": np.array([2, 3])}),
        ("a = Slice(x, first, stop, axis, back)  y = Relu(a)", {}),
        ("a = Squeeze(e, axis)  y = Add(a, x)", {}),
    ],
)
def test_what_changes_the_order_or_saves_nothing_is_left(body, constants):
    index = {"first": np.array([-1]), "stop": np.array([-99]), "axis": np.array([0]), "back": np.array([-1])}
    extra = {"e": np.ones((1, 2, 3), np.float32)} if "(e" in body else {}
    shape = "[3, 2]" if "[1, 0]> (x)  y = Relu" in body else "[2, 3]"
    used = {k: v for k, v in index.items() if k in body}
    model = parse(f"g (float[2, 3] x) => (float{shape} y) {{ {body} }}", **used, **constants, **extra)
    result = run(model)
    assert not result.changed and ops(result.artifact) == ops(model)
    if "Transpose" in body:
        assert {s.reason for s in result.left} == {"no cheaper operators do what it does"}


def test_what_others_read_is_no_saving():
    model = parse(
        """
        g (float[1, 6] x) => (float[6] y, float[2, 3] z) {
            y = Squeeze(x, zero)
            z = Reshape(y, s)
        }
        """,
        zero=np.array([0]),
        s=np.array([2, 3]),
    )
    assert not run(model).changed


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_inputs(name):
    model = parse(
        """
        g (float[batch, 3] x) => (float[batch, 3] y) {
            a = Unsqueeze(x, one)
            b = Transpose <perm = [1, 0, 2]> (a)
            c = Squeeze(b, zero)
            y = Identity(c)
        }
        """,
        zero=np.array([0]),
        one=np.array([1]),
    )
    result = run(model)
    assert ops(result.artifact) == ["Identity"]
    given = AWKWARD[name]
    assert torch.equal(outputs(model, given)[0].nan_to_num(7), outputs(result.artifact, given)[0].nan_to_num(7))


@pytest.mark.parametrize(
    ("source", "steps", "kept"),
    [
        ((66, 64), [Reshape((66, 4, 16)), Transpose((1, 0, 2)), Transpose((1, 0, 2)), Reshape((1, 66, 64))], True),
        ((4, 9), [Reshape((6, 6))], None),  # 4 does not divide 6
        ((2, 0), [Reshape((0, 2))], None),
        (("n", 6), [Reshape(("n", 2, 3)), Transpose((0, 2, 1))], False),
        (("n", 6), [Reshape(("m", 3)), Reshape(("n", 6))], None),
    ],
)
def test_the_order_of_elements(source, steps, kept):
    assert keeps_order(source, steps) is kept
