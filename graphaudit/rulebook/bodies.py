"""The bodies that the ONNX standard gives some of its operators, written in others of its operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

    from graphaudit.graphs.view import Node, Value


def function_body(node: Node) -> onnx.ModelProto | None:
    """A model that computes `node` by the body of its operator, with the node's names for inputs and outputs; None
    where the standard has no body for it in these dtypes. Raises what onnx's inliner and NumPy raise.
    """
    import onnx
    from onnx.inliner import inline_selected_functions

    inlined = inline_selected_functions(_single_node_model(node), [(node.domain, node.op)], False, True)
    assert isinstance(inlined, onnx.ModelProto)
    return None if [n.op_type for n in inlined.graph.node] == [node.op] else inlined


def _single_node_model(node: Node) -> onnx.ModelProto:
    import numpy as np
    from onnx import helper, numpy_helper

    def info(value: Value) -> onnx.ValueInfoProto:
        dtype = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype or "float32"))
        return helper.make_tensor_value_info(value.name, dtype, value.shape)

    attributes = {
        name: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in node.attributes.items()
        if value is not None and value != []
    }
    proto = helper.make_node(
        node.op,
        [v.name if v is not None else "" for v in node.inputs],
        [v.name for v in node.outputs],
        domain=node.domain,
        **attributes,
    )
    inputs = {v.name: info(v) for v in node.inputs if v is not None}
    graph = helper.make_graph([proto], "body", list(inputs.values()), [info(v) for v in node.outputs if v.name])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, node.opset or 1)])
