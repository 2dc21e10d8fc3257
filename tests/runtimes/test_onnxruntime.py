"""The runner over models of every dtype and layout, and what ONNX Runtime refuses."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from graphaudit.graphs.onnx_files import write_model
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.runtimes import onnxruntime
from graphaudit.runtimes.onnxruntime import RuntimeRefused, runner, session

DTYPES = {
    torch.bool: TensorProto.BOOL,
    torch.uint8: TensorProto.UINT8,
    torch.int8: TensorProto.INT8,
    torch.int16: TensorProto.INT16,
    torch.int32: TensorProto.INT32,
    torch.int64: TensorProto.INT64,
    torch.float16: TensorProto.FLOAT16,
    torch.float32: TensorProto.FLOAT,
    torch.float64: TensorProto.DOUBLE,
}


def model(nodes, inputs, outputs, initializers=()) -> OnnxModel:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
        [helper.make_tensor_value_info(n, t, s) for n, t, s in outputs],
        list(initializers),
    )
    return OnnxModel(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))


def identity(kind: int, rank: int) -> OnnxModel:
    shape = [f"d{i}" for i in range(rank)]
    return model([helper.make_node("Identity", ["x"], ["y"])], [("x", kind, shape)], [("y", kind, shape)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)], ids=str)
def test_every_dtype_comes_back_as_it_went_in(dtype, shape):
    value = (torch.randn(shape) * 3).to(dtype)
    (result,) = runner(identity(DTYPES[dtype], len(shape)))([value])
    assert result.dtype == dtype
    assert result.shape == value.shape
    assert torch.equal(result, value)


@pytest.mark.parametrize(
    "value",
    [torch.randn(4, 3).T, torch.randn(3, 1).expand(3, 4), torch.randn(6)[::2].expand(2, 3), torch.ones(2, 2).neg()],
    ids=["transposed", "expanded", "strided", "negated"],
)
def test_any_layout_will_do(value):
    (result,) = runner(identity(TensorProto.FLOAT, 2))([value.requires_grad_()])
    assert torch.equal(result, value.detach())


def test_a_wrong_dtype_or_count_is_refused_in_a_line():
    run = runner(identity(TensorProto.FLOAT, 1))
    with pytest.raises(RuntimeRefused, match=r"expected: \(tensor\(float\)\)") as refusal:
        run([torch.ones(2, dtype=torch.float64)])
    assert "\n" not in refusal.value.reason
    with pytest.raises(RuntimeRefused, match="takes 1 inputs and was given 2"):
        run([torch.ones(2), torch.ones(2)])


def test_a_missing_kernel_and_an_invalid_graph_are_refused():
    # ONNX allows Erf on integers, ONNX Runtime has no kernel for it.
    missing = model(
        [helper.make_node("Erf", ["x"], ["y"])], [("x", TensorProto.INT8, [2])], [("y", TensorProto.INT8, [2])]
    )
    with pytest.raises(RuntimeRefused, match="Erf"):
        session(missing)
    broken = identity(TensorProto.FLOAT, 1)
    broken.proto.graph.node[0].input[0] = "nowhere"
    with pytest.raises(RuntimeRefused):
        session(broken)


def test_weights_beyond_the_limit_go_to_a_second_file(tmp_path, monkeypatch):
    weight = onnx.numpy_helper.from_array(np.arange(1024, dtype=np.float32), "w")
    add = model(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [("x", TensorProto.FLOAT, [1024])],
        [("y", TensorProto.FLOAT, [1024])],
        [weight],
    )
    files = write_model(add.proto, tmp_path / "model.onnx", limit=100)
    assert [f.name for f in files] == ["model.onnx", "model.onnx.data"]
    assert files[0].stat().st_size < 1000 < files[1].stat().st_size
    assert add.proto.graph.initializer[0].raw_data, "the model in memory keeps its weights"
    monkeypatch.setattr(onnxruntime, "WEIGHTS_LIMIT", 100)
    (result,) = runner(add)([torch.ones(1024)])
    assert torch.equal(result, torch.arange(1024.0) + 1), "a large model runs without a folder of its own"
    (result,) = session(files[0]).run(None, {"x": np.ones(1024, np.float32)})
    assert np.array_equal(result, np.arange(1024, dtype=np.float32) + 1)
