"""decompose_onnx_operators, on models that real targets refuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphaudit.graphs.onnx_view import view_model
from graphaudit.passes import decompose_onnx_operators
from graphaudit.passes.decompose_onnx_operators import DecomposeOnnxOperators
from graphaudit.rewrite.conversion import Draft
from graphaudit.rulebook import Support, load_rulebook
from graphaudit.runtimes.onnxruntime import runner
from tests.passes.models import AWKWARD, ops, outputs, parse

AXES = {"axes": np.array([-1], np.int64)}
NORMS = """
g (float[batch, 3] x) => (float[batch] y, float[batch, 1] z) {
    [euclid] y = ReduceL2 <keepdims = 0> (x, axes)
    [manhattan] z = ReduceL1 (x, axes)
}
"""
SELECTION = "g (bool[n] c, bool[n] a, bool[n] b) => (bool[n] y) { [choose] y = Where(c, a, b) }"
SPECTRUM = """
g (float[batch, N] w) => (float[batch, K, 2] y) {
    [column] x = Unsqueeze(w, last)
    [spectrum] y = DFT <axis = 1, onesided = ONESIDED> (x, length)
}
"""


def spectrum(length=12, onesided=1, asked=None):
    kept = length // 2 + 1 if onesided else length
    text = SPECTRUM.replace("N]", f"{length}]").replace("K", str(kept)).replace("ONESIDED", str(onesided))
    return parse(text, last=np.array([-1], np.int64), length=np.array(asked or length, np.int64))


def run(model, target="ascend-310p"):
    result = DecomposeOnnxOperators().run(model.copy(), load_rulebook(target).target)
    assert not DecomposeOnnxOperators().run(result.artifact.copy(), load_rulebook(target).target).changed
    return result


def refused(model, target):
    rulebook = load_rulebook(target)
    return [n.op for n in view_model(model).nodes if rulebook.answer(n).support is Support.UNSUPPORTED]


@pytest.mark.parametrize(
    ("model", "target", "before", "after"),
    [
        (parse(NORMS, **AXES), "ascend-310p", 2, ["ReduceSumSquare", "Sqrt", "Abs", "ReduceSum"]),
        (parse(SELECTION), "onnxruntime", 1, ["And", "Not", "And", "Or"]),
        (spectrum(), "ascend-310p", 1, ["Unsqueeze", "Squeeze", "MatMul", "Reshape"]),
    ],
)
def test_what_the_target_refuses_becomes_what_it_takes(model, target, before, after):
    assert len(refused(model, target)) == before
    result = run(model, target)
    assert ops(result.artifact) == after
    assert not refused(result.artifact, target)


def test_what_the_target_takes_stays():
    result = run(parse(NORMS, **AXES), "onnxruntime")
    assert not result.changed and not result.left


def test_what_onnx_runtime_cannot_check_is_rewritten_for_every_target():
    assert ops(run(parse(SELECTION), "ascend-310p").artifact) == ["And", "Not", "And", "Or"]


def test_new_values_keep_the_source_line():
    result = run(parse(NORMS, places={"y": 3, "z": 4}, **AXES))
    lines = {op.op_type: result.artifact.place(op).line for op in result.artifact.proto.graph.node}
    assert lines == {"ReduceSumSquare": 3, "Sqrt": 3, "Abs": 4, "ReduceSum": 4}
    assert [s.place.line for s in result.rewritten] == [3, 4]


def test_axes_that_are_an_attribute():
    text = "g (float[batch, 3] x) => (float[batch, 1] y) { y = ReduceL1 <axes = [1]> (x) }"
    model = parse(text, opset=17)
    draft = Draft(model.proto.graph.node[0], {"x", "y"})
    assert decompose_onnx_operators._norm1(view_model(model).nodes[0], draft) == ""
    assert [len(n.input) for n in draft.nodes] == [1, 2]
    assert [a.name for a in draft.nodes[1].attribute] == []


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (spectrum(asked=16), "the signal is padded or cut to another length"),
        (spectrum(length=600), "the length of the signal is 600; written out are those up to 512"),
        (
            parse("g (float[2, 8, 2] x) => (float[2, 8, 2] y) { y = DFT <axis = 1> (x) }"),
            "the signal is complex",
        ),
        (
            parse("g (float[2, 8, 1] x) => (float[2, 8, 2] y) { y = DFT <axis = 0> (x) }"),
            "it does not run along the last dimension of the signal",
        ),
        (
            parse("g (float[2, 8, 1] x) => (float[2, 8, 2] y) { y = DFT <axis = 1, inverse = 1> (x) }"),
            "it runs backwards",
        ),
    ],
)
def test_transforms_that_stay(model, reason):
    result = run(model)
    assert not result.changed
    assert [s.reason for s in result.left] == [
        f"tried: written out → {reason}; the standard's function body → it has none"
    ]


def test_a_node_in_a_branch_stays():
    text = """
    g (float[2] x, bool p) => (float[1] y) {
        y = If (p) <
            then_branch = t () => (float[1] u) { [norm] u = ReduceL2 (x) },
            else_branch = e () => (float[1] v) { [largest] v = ReduceMax (x) }
        >
    }
    """
    assert ("norm", "it stands inside a branch or a loop") in [(s.node, s.reason) for s in run(parse(text)).left]


def test_a_rewrite_that_the_target_refuses_too_is_taken_back(monkeypatch):
    def worse(node, draft):
        draft.add("Scan", *draft.old.input, result=draft.old.output[0])
        return ""

    monkeypatch.setitem(decompose_onnx_operators._WRITTEN_OUT, "DFT", worse)
    model = spectrum()
    result = run(model)
    assert not result.changed
    assert result.artifact.proto == model.proto
    assert result.left[0].reason.startswith(
        "tried: written out → leaves Scan, which does not run either (the ATC parser has no entry"
    )


@pytest.mark.parametrize("case", AWKWARD)
def test_norms_on_awkward_inputs(case):
    before, after = parse(NORMS, **AXES), run(parse(NORMS, **AXES)).artifact
    for got, want in zip(outputs(after, AWKWARD[case]), outputs(before, AWKWARD[case]), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("length", [1, 2, 9, 512])
def test_spectra_against_numpy(length, onesided):
    x = np.random.default_rng(length).normal(size=(3, length)).astype(np.float32)
    got = outputs(run(spectrum(length, onesided)).artifact, x)[0].double()
    want = torch.view_as_real(torch.fft.fft(torch.from_numpy(x).double()))[:, : got.shape[1]]
    assert (got - want).abs().max() <= 16 * torch.finfo(torch.float32).eps * max(1.0, float(want.abs().max()))


def test_selection_of_every_combination():
    bits = torch.tensor([[c, a, b] for c in (0, 1) for a in (0, 1) for b in (0, 1)]).bool().unbind(1)
    got = runner(run(parse(SELECTION), "onnxruntime").artifact)([t.contiguous() for t in bits])[0]
    assert torch.equal(got, torch.where(*bits))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_a_dtype_without_a_kernel_is_computed_in_a_wider_one_and_wraps_as_before(dtype):
    text = f"g ({dtype}[n, 3] x) => ({dtype}[n, 1] z) {{ [product] z = ReduceProd <keepdims = 1> (x, axis) }}"
    model = parse(text, axis=np.array([1], np.int64))
    assert refused(model, "onnxruntime") == ["ReduceProd"]
    result = run(model, "onnxruntime")
    assert ops(result.artifact) == ["Cast", "ReduceProd", "Cast"]
    assert [s.conversion.way for s in result.rewritten] == [f"int32 for {dtype}"]
    assert result.rewritten[0].conversion.tried == ("the standard's function body → it has none",)
    assert not refused(result.artifact, "onnxruntime")
    x = (np.arange(12).reshape(4, 3) * 11 % 127).astype(dtype)
    product = runner(result.artifact)([torch.from_numpy(x)])[0].numpy()
    np.testing.assert_array_equal(product, x.prod(1, keepdims=True, dtype=dtype))


def test_an_operator_with_a_function_body_in_the_standard_becomes_that():
    text = "g (float[n, 5] x) => (float[n, 3] y) { [crop] y = CenterCropPad <axes = [1]> (x, size) }"
    model = parse(text, size=np.array([3], np.int64))
    assert refused(model, "ascend-310p") == ["CenterCropPad"]
    result = run(model)
    assert [s.conversion.way for s in result.rewritten] == ["the standard's function body"]
    assert not refused(result.artifact, "ascend-310p")
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    np.testing.assert_array_equal(outputs(result.artifact, x)[0].numpy(), x[:, 1:4])


def test_a_node_for_which_no_way_holds_stays_with_what_each_failed_on():
    text = "g (int8[3, 3] w) => (int32[3, 3] y) { [product] y = MatMulInteger (w, w) }"
    result = run(parse(text))
    assert not result.changed
    (site,) = result.left
    assert site.conversion.lacks and not site.conversion.way
    assert site.reason.startswith("tried: the standard's function body → it has none; int32 for int8 → ")
