"""`view_model`: nodes, values, subgraphs and functions of ONNX models."""

from __future__ import annotations

import time

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper, parser

from graphaudit.errors import ModelError
from graphaudit.findings import Place
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.onnx_view import view_model

SIBLINGS = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[b, 4] x, bool c) => (float[b, 4] y) {
  h = Relu(x)
  y = If(c) <
    then_branch = yes () => (float[b, 4] r) { t = Neg(h) r = Exp(t) },
    else_branch = no () => (float[b, 4] r) { t = Abs(h) r = Log(t) }
  >
}
"""

FUNCTION = """
<ir_version: 10, opset_import: ["" : 18, "mine" : 1]>
g (float[b, 4] x) => (float[b, 4] y) { y = mine.Twice(x) }
<domain: "mine", opset_import: ["" : 17]>
Twice (a) => (b) { b = Add(a, a) }
"""


def view(text: str):
    return view_model(OnnxModel.from_proto(parser.parse_model(text)))


def test_values_have_dtypes_and_shapes_and_constants_can_be_read():
    graph = view(
        """
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[b, 4] x) => (int64[k] s, float16[n, m] y)
        <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
          h = MatMul(x, w)
          y = Cast<to = 10>(h)
          one = Constant<value_ints = [1, 2]>()
          shape = Shape(h)
          s = Add(shape, one)
        }
        """
    )
    matmul, cast, constant, shape, _ = graph.nodes
    assert [(v.name, v.dtype, v.shape) for v in matmul.inputs] == [
        ("x", "float32", ("b", 4)),
        ("w", "float32", (4, 2)),
    ]
    assert matmul.outputs[0].shape == ("b", 2)
    assert cast.outputs[0].dtype == "float16"
    assert cast.attributes == {"to": 10}
    np.testing.assert_array_equal(matmul.inputs[1].array, np.arange(1, 9, dtype=np.float32).reshape(4, 2))
    np.testing.assert_array_equal(constant.outputs[0].array, np.array([1, 2]))
    assert shape.outputs[0].shape == (2,)
    assert [v.name for v in graph.inputs] == ["x"]
    assert [v.dtype for v in graph.outputs] == ["int64", "float16"]
    assert graph.opset == 18
    assert matmul.opset == 18


def test_sibling_branches_may_use_a_name_twice():
    graph = view(SIBLINGS)
    assert [n.op for n in graph.nodes] == ["Relu", "Neg", "Exp", "Abs", "Log", "If"]
    branch = graph.nodes[-1]
    assert branch.attributes == {
        "then_branch": f"{branch.name}/then_branch",
        "else_branch": f"{branch.name}/else_branch",
    }
    assert [n.graph for n in graph.nodes[1:5]] == [f"{branch.name}/then_branch"] * 2 + [
        f"{branch.name}/else_branch"
    ] * 2
    exp, log = graph.nodes[2], graph.nodes[4]
    assert graph.producer(exp.inputs[0]).op == "Neg"
    assert graph.producer(log.inputs[0]).op == "Abs"
    relu = graph.nodes[0]
    assert [n.op for n in graph.consumers(relu.outputs[0])] == ["Neg", "Abs"]
    assert exp.outputs[0].dtype == "float32"


def test_loop_bodies_are_part_of_the_view():
    graph = view(
        """
        <ir_version: 10, opset_import: ["" : 18]>
        g (int64 n, bool go, float[3] x) => (float[3] y) {
          y = Loop(n, go, x) <body = b (int64 i, bool c, float[3] v) => (bool c2, float[3] v2) {
            c2 = Identity(c)
            v2 = Exp(v)
          }>
        }
        """
    )
    assert [(n.op, n.graph.rpartition("/")[2]) for n in graph.nodes] == [
        ("Identity", "body"),
        ("Exp", "body"),
        ("Loop", ""),
    ]
    assert graph.nodes[1].inputs[0].dtype == "float32"


def test_local_functions_stand_last_with_their_own_opset():
    graph = view(FUNCTION)
    call, add = graph.nodes
    assert graph.functions == ("mine::Twice",)
    assert (call.domain, call.opset, call.graph) == ("mine", 1, "")
    assert (add.op, add.opset, add.graph) == ("Add", 17, "functions/mine::Twice")
    assert graph.imports == {"": 18, "mine": 1}


def test_names_are_unique_where_the_model_leaves_them_out_or_repeats_them():
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy")
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="n"),
        helper.make_node("Relu", ["a"], ["b"], name="n"),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    proto = helper.make_model(helper.make_graph(nodes, "g", [x], [y]))
    assert [n.name for n in view_model(OnnxModel(proto)).nodes] == ["n", "n_1", "Relu_y"]


def test_an_omitted_input_is_none_and_an_omitted_output_has_no_name():
    graph = view(
        """
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[3] x, float top) => (float[3] y) { y = Clip(x, , top) }
        """
    )
    assert [v.name if v else None for v in graph.nodes[0].inputs] == ["x", None, "top"]


def test_a_model_that_inference_refuses_can_still_be_viewed():
    graph = view(
        """
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[3] x) => (float[3] y) { h = Reshape(x) y = Add(h, missing) }
        """
    )
    assert [n.op for n in graph.nodes] == ["Reshape", "Add"]
    assert graph.nodes[1].inputs[1].dtype is None


def test_weights_beside_the_model_are_an_error_only_when_read():
    weight = numpy_helper.from_array(np.ones(2, np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights.bin")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    graph = view_model(OnnxModel(helper.make_model(helper.make_graph([node], "g", [x], [y], [weight]))))
    assert graph.nodes[0].inputs[1].shape == (2,)
    with pytest.raises(ModelError, match="were not loaded"):
        _ = graph.nodes[0].inputs[1].array


def test_nodes_point_to_the_users_lines():
    class Policy(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x).sum(-1)

    program = torch.onnx.export(Policy().eval(), (torch.ones(2, 3),), dynamo=True, verbose=False, opset_version=18)
    graph = view_model(OnnxModel.from_proto(program.model_proto))
    places = {n.op: n.place for n in graph.nodes if n.place}
    assert isinstance(places["Relu"], Place)
    assert places["Relu"].file == __file__
    assert places["Relu"].line == Policy.forward.__code__.co_firstlineno + 1


def test_ten_thousand_nodes_take_a_moment():
    weight = numpy_helper.from_array(np.ones((16, 16), np.float32), "w")
    nodes = []
    for i in range(5000):
        nodes.append(helper.make_node("MatMul", [f"v{i}", "w"], [f"h{i}"]))
        nodes.append(helper.make_node("Relu", [f"h{i}"], [f"v{i + 1}"]))
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["b", 16]) for n in ("v0", "v5000"))
    model = OnnxModel(helper.make_model(helper.make_graph(nodes, "g", [x], [y], [weight])))
    onnx.checker.check_model(model.proto)
    start = time.process_time()
    graph = view_model(model)
    assert time.process_time() - start < 3.0
    assert graph.nodes[-1].outputs[0].shape == ("b", 16)
