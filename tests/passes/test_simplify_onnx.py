"""simplify_onnx with the real onnxsim."""

from __future__ import annotations

import sys

import numpy as np
import onnxsim
import pytest
import torch

from graphaudit.passes.simplify_onnx import SimplifyOnnx
from tests.export.targets import ONNXRUNTIME
from tests.passes.models import AWKWARD, interface, ops, outputs, parse

FOLDABLE = """
g (float[batch, 3] x, float[batch, 3] unused) => (float[batch, k] y, float[batch, 3] same) {
    [fold] two = Add(one, one)
    [scale] s = Mul(x, two)
    [product] p = MatMul(s, w)
    [bias] q = Add(p, b)
    [relu] y = Relu(q)
    [pass_through] same = Identity(x)
}
"""


def foldable():
    return parse(
        FOLDABLE,
        places={"two": 1, "s": 2, "p": 3, "q": 4, "y": 5},
        one=np.float32(1),
        w=np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
        b=np.arange(4, dtype=np.float32),
    )


def run(model):
    return SimplifyOnnx().run(model.copy(), ONNXRUNTIME)


def test_constants_fold_and_the_interface_stays():
    result = run(foldable())
    assert ops(result.artifact) == ["Mul", "MatMul", "Add", "Relu", "Identity"]
    assert interface(result.artifact) == interface(foldable())
    assert {s.node: s.reason for s in result.rewritten}["fold"] == "folded or fused"
    assert all(s.place for s in result.rewritten)
    assert result.artifact.places["y"].line == 5
    assert not result.artifact.proto.metadata_props


def test_rewrites_that_move_rounding_are_left_to_passes_with_a_verdict():
    values = np.random.default_rng(0).uniform(0.5, 1.5, 4 * 3 * 9 + 5 * 4).astype(np.float32)
    weight, *vectors = np.split(values, [108, 112, 116, 120, 124])
    model = parse(
        """
        g (float[batch, 3, 8, 8] x, float[2, 3] m) => (float[batch, 4, 6, 6] y, float[2, 4] z, float[2, 4] p) {
            [conv] c = Conv(x, w, b)
            [norm] y = BatchNormalization(c, scale, shift, mean, var)
            [product] d = MatMul(m, w2)
            [bias] z = Add(d, b)
            [softmax] s = Softmax <axis: int = -1> (z)
            [log] p = Log(s)
        }
        """,
        w=weight.reshape(4, 3, 3, 3),
        w2=np.ones((3, 4), np.float32),
        **dict(zip(["b", "scale", "shift", "mean", "var"], vectors, strict=True)),
    )
    assert ops(run(model).artifact) == ["Conv", "BatchNormalization", "MatMul", "Add", "Softmax", "Log"]


def test_equal_rows_stay_equal():
    """Fused into a Gemm over all rows at once, the last rows may be summed in another order, and win the argmax."""
    rng = np.random.default_rng(0)
    model = parse(
        """
        g (float[batch, 5, 9] x) => (float[batch, 5, 32] z) {
            d = MatMul(x, w)
            e = Add(d, b)
            r = Relu(e)
            f = MatMul(r, v)
            z = Add(f, b)
        }
        """,
        w=rng.normal(size=(9, 32)).astype(np.float32),
        v=rng.normal(size=(32, 32)).astype(np.float32),
        b=rng.normal(size=32).astype(np.float32),
    )
    assert ops(run(model).artifact) == ["MatMul", "Add", "Relu", "MatMul", "Add"]


def test_ties_of_a_saturated_sigmoid_stay_ties():
    model = parse("g (float[n] x) => (int64[1] y) { p = Sigmoid(x)  y = ArgMax <axis: int = 0> (p) }")
    x = np.array([100.0, 200.0, 0.0])
    assert outputs(model, x)[0] == outputs(run(model).artifact, x)[0] == 0


def test_graphs_that_draw_are_left_alone():
    model = parse(
        """
        g (float[3] x) => (float[3] y, float[3] z) {
            a = RandomNormalLike(x)  b = RandomNormalLike(x)
            y = Add(x, a)  z = Add(x, b)
        }
        """
    )
    result = run(model)
    assert not result.changed
    assert [s.reason for s in result.left] == ["RandomNormalLike draws random numbers, and onnxsim merges draws"]
    assert result.artifact.proto == model.proto


def test_a_model_that_onnxsim_cannot_take_is_left_alone():
    model = parse("g (float[3] x) => (float[3] y) { y = Relu(x) }")
    model.proto.graph.node[0].input[0] = "nowhere"
    result = run(model)
    assert not result.changed
    assert [s.reason.partition(":")[0] for s in result.left] == ["onnxsim failed"]


def test_another_interface_is_not_accepted(monkeypatch):
    """onnxsim itself, told to freeze the batch size under another output name, stands for a release that would."""
    real = onnxsim.simplify

    def renaming(model, **options):
        simplified, ok = real(model, **options)
        simplified.graph.output[0].name = simplified.graph.node[2].output[0] = "other"
        return simplified, ok

    monkeypatch.setattr(onnxsim, "simplify", renaming)
    result = run(foldable())
    assert not result.changed
    assert "changed the outputs from ['y', 'same'] to ['other', 'same']" in result.left[0].reason


def test_large_constants_are_not_folded_into_the_model():
    model = parse(
        "g (float[n] x) => (float[1000, 1000, n] y) { c = Expand(one, shape)  u = Unsqueeze(x, axes)  y = Mul(c, u) }",
        one=np.float32(1),
        shape=np.array([1000, 1000, 1]),
        axes=np.array([0, 1]),
    )
    result = run(model)
    assert "Expand" in ops(result.artifact)
    assert result.artifact.proto.ByteSize() < 10_000


def test_a_second_run_changes_nothing():
    first = run(foldable())
    second = run(first.artifact)
    assert first.changed
    assert not second.changed
    assert second.artifact.proto == first.artifact.proto


@pytest.mark.parametrize("case", AWKWARD)
def test_equivalent_on_awkward_inputs(case):
    """Within 4 units in the last place of float32: folded constants are rounded once instead of twice."""
    x = AWKWARD[case]
    for got, want in zip(outputs(run(foldable()).artifact, x, x), outputs(foldable(), x, x), strict=True):
        torch.testing.assert_close(got, want, rtol=4 * 2**-23, atol=1e-6, equal_nan=True)


def test_nothing_reaches_the_terminal(capfd):
    run(foldable())
    sys.stdout.flush()
    assert capfd.readouterr() == ("", "")
