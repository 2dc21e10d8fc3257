"""Source lines of nodes that an ONNX tool made."""

from __future__ import annotations

import numpy as np

from tests.passes.models import parse

TEXT = """
g (float[3] x, bool c) => (float[3] y, float[3] z) {
    two = Add(one, one)
    half = Neg(two)
    m = Mul(x, half)
    y = If(c) <then_branch = t () => (float[3] a) { i = Relu(m)  a = Neg(i) },
              else_branch = e () => (float[3] b) { b = Exp(m) }>
    s = Sigmoid(m)
    z = Identity(s)
}
"""


def lines(model):
    return {name: place.line for name, place in model.places.items()}


def test_a_node_without_a_line_has_that_of_its_reader_else_of_what_it_reads_else_of_its_owner():
    model = parse(TEXT, places={"m": 3, "y": 4, "b": 7}, one=np.float32(1))
    model.inherit_places()
    assert lines(model) == {"two": 3, "half": 3, "m": 3, "y": 4, "i": 3, "a": 3, "b": 7, "s": 3, "z": 3}


def test_a_node_that_reads_nothing_stands_on_the_line_of_the_branch():
    text = """
    g (bool c) => (float[3] y) {
        y = If(c) <then_branch = t () => (float[3] a) { a = Constant <value = float[3] {1.0, 2.0, 3.0}> () },
                   else_branch = e () => (float[3] b) { b = Constant <value = float[3] {0.0, 0.0, 0.0}> () }>
    }
    """
    model = parse(text, places={"y": 4})
    model.inherit_places()
    assert lines(model) == {"y": 4, "a": 4, "b": 4}


def test_lines_that_are_known_stay_and_a_model_without_any_gets_none():
    known = {name: number for number, name in enumerate(["two", "half", "m", "y", "i", "a", "b", "s", "z"], 1)}
    model = parse(TEXT, places=known, one=np.float32(1))
    model.inherit_places()
    assert lines(model) == known
    empty = parse(TEXT, one=np.float32(1))
    empty.inherit_places()
    assert not empty.places


def test_an_optional_output_that_is_not_there_is_no_value():
    model = parse(
        "g (float[4] x) => (int64[2] i) { , i = TopK <axis: int = 0> (x, k) }", places={"i": 9}, k=np.array([2])
    )
    model.inherit_places()
    assert lines(model) == {"i": 9}
