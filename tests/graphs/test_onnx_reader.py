"""Reading `.onnx` files that may come from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphaudit
from graphaudit.errors import ModelError
from graphaudit.graphs.onnx_reader import load_onnx


def model(
    nodes: Sequence[onnx.NodeProto] | None = None, initializers: Sequence[onnx.TensorProto] = ()
) -> onnx.ModelProto:
    """x (1, 3) → y (1, 3)."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3]) for n in "xy")
    graph = helper.make_graph(nodes or [helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    file = folder / "model.onnx"
    file.write_bytes(proto.SerializeToString())
    return file


def refusal(file: Path) -> str:
    with pytest.raises(ModelError) as caught:
        load_onnx(file)
    assert caught.value.remedy
    assert "\n" not in caught.value.message
    return caught.value.message


def external(location: str, key: str = "w", length: int = 12) -> onnx.TensorProto:
    tensor = TensorProto(name=key, data_type=TensorProto.FLOAT, dims=[1, 3], data_location=TensorProto.EXTERNAL)
    for name, value in (("location", location), ("offset", "0"), ("length", str(length))):
        tensor.external_data.add(key=name, value=value)
    return tensor


def adding(tensor: onnx.TensorProto) -> onnx.ModelProto:
    return model([helper.make_node("Add", ["x", tensor.name], ["y"])], [tensor])


def test_a_good_model_is_read(tmp_path: Path) -> None:
    loaded = load_onnx(saved(model(), tmp_path))
    assert loaded.opset == 18
    assert [n.op_type for n in loaded.proto.graph.node] == ["Relu"]


def test_data_beside_the_model_are_read(tmp_path: Path) -> None:
    weights = np.array([[1, 2, 3]], np.float32)
    (tmp_path / "model.data").write_bytes(weights.tobytes())
    loaded = load_onnx(saved(adding(external("model.data")), tmp_path))
    np.testing.assert_array_equal(numpy_helper.to_array(loaded.proto.graph.initializer[0]), weights)


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "a/../../secret", "link/secret"])
def test_data_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(12))
    (folder / "link").symlink_to(tmp_path)
    assert "outside the model's folder" in refusal(saved(adding(external(location)), folder))


def test_data_outside_are_refused_in_attributes_and_subgraphs_too(tmp_path: Path) -> None:
    constant = helper.make_node("Constant", [], ["c"])
    constant.attribute.append(helper.make_attribute("value", external("../secret")))
    assert "outside" in refusal(saved(model([constant, helper.make_node("Add", ["x", "c"], ["y"])]), tmp_path))
    value = helper.make_tensor_value_info("c", TensorProto.FLOAT, [1, 3])
    branch = helper.make_graph([constant], "b", [], [value])
    condition = numpy_helper.from_array(np.array(True), "k")
    choice = helper.make_node("If", ["k"], ["y"], then_branch=branch, else_branch=branch)
    assert "outside" in refusal(saved(model([choice], [condition]), tmp_path))


def test_missing_or_short_data_are_named(tmp_path: Path) -> None:
    file = saved(adding(external("model.data")), tmp_path)
    assert "'model.data' of tensor 'w' is missing" in refusal(file)
    (tmp_path / "model.data").write_bytes(bytes(5))
    assert "ends before tensor 'w' does" in refusal(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (model().SerializeToString()[:-20], "truncated or not an ONNX model"),
        (b"\x89PNG\r\n\x1a\n and more", "truncated or not an ONNX model"),
        (onnx.ModelProto(ir_version=10).SerializeToString(), "holds no graph"),
        (b"<html></html>", "not an ONNX model"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(content)
    assert message in refusal(file)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    saved(model(), tmp_path)
    with pytest.raises(ModelError, match="there is no file") as caught:
        load_onnx(tmp_path / "modle.onnx")
    assert "'model.onnx'" in caught.value.remedy
    assert "is not a file" in refusal(tmp_path)


def test_later_and_very_old_versions_are_named(tmp_path: Path) -> None:
    proto = model()
    proto.ir_version = onnx.IR_VERSION + 1
    assert f"reads up to {onnx.IR_VERSION}" in refusal(saved(proto, tmp_path))
    proto.ir_version = 2
    assert "IR version 2" in refusal(saved(proto, tmp_path))


def test_cycles_disorder_and_loose_ends_are_told_apart(tmp_path: Path) -> None:
    first, second = helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])
    last = helper.make_node("Relu", ["b"], ["y"])
    assert "cycle" in refusal(saved(model([first, second, last]), tmp_path))
    assert "out of order" in refusal(saved(model([last, helper.make_node("Relu", ["x"], ["b"])]), tmp_path))
    assert "which nothing gives" in refusal(saved(model([helper.make_node("Add", ["x", "z"], ["y"])]), tmp_path))
    itself = helper.make_node("Add", ["x", "y"], ["y"])
    assert "cycle" in refusal(saved(model([itself]), tmp_path))


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    message = refusal(saved(model([helper.make_node("Add", ["x", "\x1b[31mz"], ["y"])]), tmp_path))
    assert "\x1b" not in message


@pytest.mark.parametrize("op", ["AscendQuant", "Gelu", "Upsample"])  # a vendor's; from opset 20 on; until opset 9
def test_operators_that_the_standard_does_not_have_are_left_to_the_targets(tmp_path: Path, op: str) -> None:
    strange = model([helper.make_node(op, ["x"], ["h"]), helper.make_node("Relu", ["h"], ["y"])])
    read = load_onnx(saved(strange, tmp_path))
    assert [n.domain for n in read.proto.graph.node] == ["", ""]
    report = graphaudit.audit(read, target=["onnx", "onnxruntime", "ascend-910b"])
    answers = next(row.answers for row in report.operators if row.op == op)
    assert answers["onnx"] == answers["onnxruntime"] == "unsupported"
    assert (answers["ascend-910b"] == "unsupported") == (op != "AscendQuant")


def test_the_other_nodes_are_checked_all_the_same(tmp_path: Path) -> None:
    odd = helper.make_node("Odd", ["x"], ["h"])
    assert "axis" in refusal(saved(model([odd, helper.make_node("Concat", ["h"], ["y"])]), tmp_path))
