"""clean_onnx_graph on models that hold what exporters leave behind."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.clean_onnx_graph import CleanOnnxGraph
from tests.export.targets import ONNXRUNTIME
from tests.passes.models import AWKWARD, interface, ops, outputs, parse

MESSY = """
g (float[batch, 3] x, float[batch, 3] unused) => (float[batch, 3] y, float[batch, 3] z) {
    [copy] a = Identity(x)
    [dead] d = Exp(a)
    [relu] b = Relu(a)
    [add] c = Add(b, w)
    [out_y] y = Identity(c)
    [copy2] e = Identity(c)
    [tanh] z = Tanh(e)
}
"""


def messy():
    return parse(
        MESSY,
        imports=', "com.example": 1',
        places={"a": 1, "c": 4, "y": 5, "z": 7},
        w=torch.ones(3).numpy(),
        unread=torch.zeros(4).numpy(),
    )


def run(model):
    return CleanOnnxGraph().run(model.copy(), ONNXRUNTIME)


def test_identities_dead_nodes_initializers_and_imports_go():
    result = run(messy())
    assert ops(result.artifact) == ["Relu", "Add", "Tanh"]
    assert [t.name for t in result.artifact.proto.graph.initializer] == ["w"]
    assert [i.domain for i in result.artifact.proto.opset_import] == [""]
    assert {s.node for s in result.rewritten} == {"copy", "dead", "out_y", "copy2", "unread", "com.example"}
    assert interface(result.artifact) == interface(messy())


def test_the_value_that_becomes_an_output_keeps_its_source_line():
    places = run(messy()).artifact.places
    assert places["y"].line == 4  # the line of the Add, not of the copy
    assert places["z"].line == 7


def test_identities_that_an_output_needs_stay_with_the_reason():
    model = parse(
        """
        g (float[n] x) => (float[n] same, float[n] y, float[n] again, float[2] constant) {
            [pass_through] same = Identity(x)
            [relu] y = Relu(x)
            [twice] again = Identity(y)
            [weight] constant = Identity(w)
        }
        """,
        w=torch.ones(2).numpy(),
    )
    result = run(model)
    assert not result.changed
    assert {s.node: s.reason for s in result.left} == {
        "pass_through": "output same is the input x",
        "twice": "output again is the same tensor as output y",
        "weight": "output constant is a constant",
    }
    assert result.artifact.proto == model.proto


def test_subgraphs_keep_what_they_return():
    model = parse(
        """
        g (float[n] x, bool p) => (float[n] y) {
            [copy] a = Identity(x)
            [choose] y = If (p) <
                then_branch = t () => (float[n] u) { [outer] u = Identity(a) },
                else_branch = e () => (float[n] v) { [inner] i = Relu(a)  [last] v = Identity(i) }
            >
        }
        """
    )
    result = run(model)
    assert {s.node for s in result.rewritten} == {"copy", "last"}
    assert {s.node: s.reason for s in result.left} == {"outer": "output u is computed outside the subgraph"}


def test_nodes_are_put_in_order():
    model = parse("g (float[n] x) => (float[n] y) { [a] m = Relu(x)  [b] y = Tanh(m) }")
    nodes = [model.proto.graph.node[1], model.proto.graph.node[0]]
    copies = [type(n).FromString(n.SerializeToString()) for n in nodes]
    model.proto.graph.ClearField("node")
    model.proto.graph.node.extend(copies)
    result = run(model)
    assert ops(result.artifact) == ["Relu", "Tanh"]
    assert [s.reason for s in result.rewritten] == ["nodes were not in topological order"]


def test_a_second_run_changes_nothing():
    first = run(messy())
    second = run(first.artifact)
    assert first.changed
    assert not second.changed
    assert second.artifact.proto == first.artifact.proto


@pytest.mark.parametrize("case", AWKWARD)
def test_equal_to_the_last_bit_on_awkward_inputs(case):
    x = AWKWARD[case]
    before, after = messy(), run(messy()).artifact
    for got, want in zip(outputs(after, x, x), outputs(before, x, x), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
