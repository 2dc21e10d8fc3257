"""What is proved of a step between two ONNX models, and that nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

import graphaudit.equivalence.proof
from graphaudit.equivalence.proof import prove
from graphaudit.passes.clean_onnx_graph import CleanOnnxGraph
from graphaudit.passes.simplify_onnx import SimplifyOnnx
from tests.export.targets import ONNXRUNTIME
from tests.passes.models import parse

BEFORE = """
g (float[batch, 3] x) => (float[batch, 3] y, float[batch, 3] z) {
    dead = Exp(x)
    two = Add(one, one)
    s = Mul(x, two)
    i = Identity(s)
    t = Tanh(i)
    y = Identity(t)
    z = Relu(x)
}
"""


def model(text, **constants):
    return parse(text, places={"two": 2, "s": 3, "t": 5, "y": 6, "z": 7}, **constants)


def changed(text, *replaced, **constants):
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    return model(text, **constants)


def test_removed_nodes_and_folded_constants_are_proved():
    before = model(BEFORE, one=np.float32(1.5))
    cleaned = CleanOnnxGraph().run(before.copy(), ONNXRUNTIME).artifact
    simplified = SimplifyOnnx().run(before.copy(), ONNXRUNTIME).artifact
    assert [n.op_type for n in simplified.proto.graph.node] == ["Mul", "Tanh", "Relu"]
    for after in (cleaned, simplified):
        proof = prove(before, after)
        assert (proof.proved, proof.compared, proof.steps) == (["y", "z"], [], [])
        assert proof.sentence == "proved the same as before on every input"
        assert proof.prover.startswith("onnxsim 0.8")


@pytest.mark.parametrize(
    "old, new",
    [
        ("t = Tanh(i)", "t = Sigmoid(i)"),
        ("s = Mul(x, two)", "s = Mul(x, one)"),
        ("s = Mul(x, two)", "s = Div(x, two)"),
        ("i = Identity(s)", "i = Identity(x)"),
    ],
)
def test_another_operator_or_operand_is_not(old, new):
    proof = prove(model(BEFORE, one=np.float32(1.5)), changed(BEFORE, (old, new), one=np.float32(1.5)))
    assert (proof.proved, proof.compared) == (["z"], ["y"])
    (step,) = proof.steps
    assert not step.proved and step.place is not None
    assert "but for 1 rewrite, only compared: " in proof.sentence


def test_a_constant_that_is_off_in_the_last_bit_is_not():
    one = np.float32(1.5)
    proof = prove(model(BEFORE, one=one), model(BEFORE, one=np.nextafter(one, np.float32(2))))
    assert proof.compared == ["y"] and proof.proved == ["z"]


def test_outputs_that_change_places_are_not():
    """One output is an Identity of the other's operand, so that names alone say which is which."""
    text = "g (float[3] x) => (float[3] y, float[3] z) {{ a = Exp(x) b = Tanh(x)  y = Identity({}) z = Identity({}) }}"
    assert prove(parse(text.format("a", "b")), parse(text.format("b", "a"))).compared == ["y", "z"]
    assert prove(parse(text.format("a", "b")), parse(text.format("a", "b"))).compared == []
    assert prove(parse(text.format("a", "a")), parse(text.format("a", "a"))).compared == []
    assert prove(parse(text.format("a", "a")), parse(text.format("a", "b"))).compared == ["z"]
    assert prove(parse(text.format("x", "one"), one=np.ones(3)), parse(text.format("x", "x"))).compared == ["z"]


def test_a_branch_that_reads_from_outside_is_refused():
    """Its graph is the same in both models, and the value that it reads is not."""
    text = """
    g (float[3] x, bool c) => (float[3] y) {
        h = Tanh(x)
        y = If(c) <then_branch = t () => (float[3] a) { a = Neg(h) }, else_branch = e () => (float[3] b) { b = Abs(h) }>
    }
    """
    proof = prove(parse(text), parse(text.replace("Tanh", "Exp")))
    assert proof.proved == [] and proof.compared == ["y"]
    assert proof.sentence == "not proved: the graphs of its branches and loops read values from outside"


def test_draws_are_refused():
    text = "g (float[3] x) => (float[3] y) { a = RandomNormalLike(x)  b = RandomNormalLike(x)  y = Sub(a, b) }"
    proof = prove(parse(text), parse(text.replace("y = Sub(a, b)", "y = Sub(a, a)")))
    assert proof.sentence == "not proved: RandomNormalLike draws random numbers"


def test_a_function_with_another_body_is_refused():
    text = """
    <ir_version: 10, opset_import: ["": 18, "own": 1]>
    g (float[3] x) => (float[3] y) {{ y = own.F(x) }}
    <domain: "own", opset_import: ["": 18]> F (x) => (y) {{ y = {}(x) }}
    """
    import onnx

    from graphaudit.graphs.onnx_model import OnnxModel

    one, other = (OnnxModel(onnx.parser.parse_model(text.format(op))) for op in ("Exp", "Tanh"))
    assert prove(one, one).sentence == "proved the same as before on every input"
    assert prove(one, other).reason == "its functions are not the same as before"


def test_a_large_constant_is_not_computed():
    text = "g (float[1] x) => (float[4096, 4096, 1] y) { c = Expand(one, shape)  y = Mul(c, x) }"
    before = parse(text, one=np.float32(1), shape=np.array([4096, 4096, 1]))
    assert prove(before, before).compared == []


def test_weights_that_would_take_long_to_copy_are_refused(monkeypatch):
    monkeypatch.setattr(graphaudit.equivalence.proof, "_MOST_WEIGHTS", 8)
    before = parse("g (float[3] x) => (float[3] y) { y = Mul(x, w) }", w=np.zeros(3, np.float32))
    assert prove(before, before).sentence == "not proved: the weights are larger than 256 MB"


def test_z3_proves_what_is_equal_in_exact_arithmetic():
    pytest.importorskip("z3")
    before = parse("g (float[2, 3] x) => (float[2, 3] y) { a = Mul(x, two)  y = Relu(a) }", two=np.float32(2))
    after = parse("g (float[2, 3] x) => (float[2, 3] y) { a = Add(x, x)  y = Relu(a) }")
    (step,) = prove(before, after).steps
    assert step.proved and step.how.startswith("smt")
    wrong = parse("g (float[2, 3] x) => (float[2, 3] y) { a = Add(x, one)  y = Relu(a) }", one=np.float32(1))
    assert prove(before, wrong).compared == ["y"]
