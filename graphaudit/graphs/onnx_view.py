"""ONNX model → `GraphView`.

Values get dtype and shape from `onnx.shape_inference` with data propagation, run on a copy without the large
initializers, so that a model of any size can be viewed. Where inference fails, dtypes and shapes are None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper, numpy_helper

from graphaudit.errors import ModelError
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.view import GraphView, Node, Value

# Data propagation needs shapes, axes and counts, never weights.
_SMALL = 1024  # elements
_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def view_model(model: OnnxModel) -> GraphView:
    """The nodes of the main graph, of its subgraphs and of its local functions.

    The nodes of a subgraph stand before the node that owns it, under the path `owner/then_branch`; those of a local
    function stand last, under `functions/domain::name`, and their values have no dtype, since that depends on the call.
    dtypes are numpy's names, plus `string`, and `seq(float32)`, `optional(float32)` for values that are no tensors.
    """
    proto = model.proto
    imports = {i.domain if i.domain != "ai.onnx" else "": i.version for i in proto.opset_import}
    builder = _Builder(model, imports, infer_types(proto))
    scope = _Scope("", {})
    inputs, outputs = builder.add_graph(proto.graph, scope)
    for function in proto.functions:
        builder.add_function(function)
    return GraphView(
        nodes=tuple(builder.nodes),
        inputs=inputs,
        outputs=outputs,
        opset=imports.get(""),
        imports=imports,
        functions=tuple(f"{f.domain}::{f.name}" for f in proto.functions),
    )


def infer_types(proto: onnx.ModelProto) -> GraphProto:
    """The main graph with the types that shape inference finds, without large initializers; as given where it fails."""
    light = onnx.ModelProto()
    light.ir_version = proto.ir_version
    light.opset_import.extend(proto.opset_import)
    light.functions.extend(proto.functions)
    _copy_light(proto.graph, light.graph)
    try:
        return onnx.shape_inference.infer_shapes(light, data_prop=True).graph
    except Exception:  # onnx raises InferenceError, RuntimeError or ValueError, by the kind of fault in the model
        return light.graph


def _copy_light(source: GraphProto, copy: GraphProto) -> None:
    copy.name = source.name
    copy.node.extend(source.node)
    copy.output.extend(source.output)
    copy.value_info.extend(source.value_info)
    copy.input.extend(source.input)
    declared = {i.name for i in source.input}
    for tensor in source.initializer:
        if np.prod(tensor.dims, dtype=np.int64) <= _SMALL and tensor.data_location != TensorProto.EXTERNAL:
            copy.initializer.append(tensor)
        elif tensor.name not in declared:
            copy.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    for sparse in source.sparse_initializer:
        name, values = sparse.values.name, sparse.values
        if name not in declared:
            copy.input.append(helper.make_tensor_value_info(name, values.data_type, sparse.dims))


@dataclass
class _Scope:
    """The values visible in a graph: ONNX name → `Value`, enclosing graphs included."""

    path: str
    values: dict[str, Value]
    opsets: Mapping[str, int] | None = None  # a local function has its own imports


@dataclass
class _Builder:
    model: OnnxModel
    imports: Mapping[str, int]
    inferred: GraphProto
    nodes: list[Node] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)
    _counts: dict[str, int] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def add_graph(
        self, graph: GraphProto, scope: _Scope, inferred: GraphProto | None = None
    ) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """Append the graph's nodes; return its inputs (those without an initializer) and its outputs."""
        typed = inferred if inferred is not None else self.inferred
        types = {v.name: v for group in (typed.value_info, typed.output, typed.input) for v in group}
        for tensor in graph.initializer:
            scope.values[tensor.name] = self._constant(tensor, scope)
        for sparse in graph.sparse_initializer:
            name, dtype = sparse.values.name, dtype_name(sparse.values.data_type)
            scope.values[name] = Value(self._unique(name, scope), dtype, tuple(sparse.dims))
        inputs = []
        for info in graph.input:
            if info.name not in scope.values or scope.path:
                scope.values[info.name] = self._typed(info.name, scope, types)
                inputs.append(scope.values[info.name])
        for node, typed_node in zip(graph.node, typed.node, strict=True):
            self._add_node(node, typed_node, scope, types)
        outputs = tuple(scope.values.get(o.name) or self._typed(o.name, scope, types) for o in graph.output)
        return tuple(inputs), outputs

    def add_function(self, function: onnx.FunctionProto) -> None:
        """Append the nodes of a local function's body."""
        opsets = {i.domain if i.domain != "ai.onnx" else "": i.version for i in function.opset_import}
        scope = _Scope(f"functions/{function.domain}::{function.name}", {}, opsets)
        for name in function.input:
            scope.values[name] = self._typed(name, scope, {})
        for node in function.node:
            self._add_node(node, node, scope, {})

    def _add_node(self, proto: NodeProto, typed: NodeProto, scope: _Scope, types: Mapping[str, ValueInfoProto]) -> None:
        domain = proto.domain if proto.domain != "ai.onnx" else ""
        name = self._node_name(proto)
        attributes: dict[str, Any] = {}
        for attribute, typed_attribute in zip(proto.attribute, typed.attribute, strict=True):
            if attribute.type in _GRAPHS:
                attributes[attribute.name] = self._subgraphs(attribute, typed_attribute, name, scope)
            else:
                attributes[attribute.name] = attribute_value(attribute)
        inputs = tuple(self._read(i, scope, types) if i else None for i in proto.input)
        constant = attributes if proto.op_type == "Constant" and not domain else None
        for output in proto.output:
            if output:
                scope.values[output] = self._typed(output, scope, types, constant)
        opsets = scope.opsets if scope.opsets is not None else self.imports
        self.nodes.append(
            Node(
                name=name,
                op=proto.op_type,
                domain=domain,
                inputs=inputs,
                outputs=tuple(scope.values[o] if o else Value("") for o in proto.output),
                attributes=attributes,
                place=self.model.place(proto),
                opset=opsets.get(domain),
                graph=scope.path,
            )
        )

    def _subgraphs(self, attribute: AttributeProto, typed: AttributeProto, owner: str, scope: _Scope) -> Any:
        """Append the nodes of an attribute's subgraphs; the attribute's value becomes their path or paths."""
        single = attribute.type == AttributeProto.GRAPH
        bodies = [(attribute.g, typed.g)] if single else list(zip(attribute.graphs, typed.graphs, strict=True))
        paths = []
        for index, (body, typed_body) in enumerate(bodies):
            path = f"{owner}/{attribute.name}" + ("" if single else f"[{index}]")
            self.add_graph(body, _Scope(path, dict(scope.values), scope.opsets), typed_body)
            paths.append(path)
        return paths[0] if single else tuple(paths)

    def _read(self, name: str, scope: _Scope, types: Mapping[str, ValueInfoProto]) -> Value:
        if name not in scope.values:  # an undefined name: the model is invalid, and the checker says so
            scope.values[name] = self._typed(name, scope, types)
        return scope.values[name]

    def _typed(
        self,
        name: str,
        scope: _Scope,
        types: Mapping[str, ValueInfoProto],
        constant: Mapping[str, Any] | None = None,
    ) -> Value:
        dtype, shape = type_of(types[name].type) if name in types else (None, None)
        read = None
        if constant is not None:
            array = _constant_array(constant)
            if array is not None:
                dtype = dtype or ("string" if array.dtype == object else str(array.dtype))
                shape = tuple(array.shape)
                read = lambda: array  # noqa: E731
        return Value(self._unique(name, scope), dtype, shape, read)

    def _constant(self, tensor: TensorProto, scope: _Scope) -> Value:
        def read() -> np.ndarray[Any, Any]:
            if tensor.data_location == TensorProto.EXTERNAL:
                raise ModelError(
                    f"the values of {tensor.name!r} are in a file beside the model and were not loaded",
                    "Load the model together with its external data.",
                )
            return numpy_helper.to_array(tensor)

        return Value(self._unique(tensor.name, scope), dtype_name(tensor.data_type), tuple(tensor.dims), read)

    def _unique(self, name: str, scope: _Scope) -> str:
        """Sibling subgraphs may use a name twice; the view must not."""
        wanted = name if name not in self._taken else f"{scope.path}/{name}"
        unique, number = wanted, 1
        while unique in self._taken:
            unique, number = f"{wanted}_{number}", number + 1
        self._taken.add(unique)
        return unique

    def _node_name(self, proto: NodeProto) -> str:
        """The node's own name, or `op_output`; a number is added where it stands already."""
        output = next((o for o in proto.output if o), "")
        base = proto.name or f"{proto.op_type}_{output}".rstrip("_")
        name = base
        while name in self._names:
            self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base}_{self._counts[base]}"
        self._names.add(name)
        return name


@cache
def dtype_name(data_type: int) -> str | None:
    """numpy's name of a `TensorProto.DataType`; `string` for strings, None for UNDEFINED."""
    if data_type == TensorProto.UNDEFINED:
        return None
    return "string" if data_type == TensorProto.STRING else str(helper.tensor_dtype_to_np_dtype(data_type))


def type_of(proto: TypeProto) -> tuple[str | None, tuple[int | str, ...] | None]:
    """dtype and shape of a type. A size that is not known is `?`."""
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        tensor = proto.tensor_type
        shape = tuple(_sizes(tensor.shape)) if tensor.HasField("shape") else None
        return dtype_name(tensor.elem_type), shape
    if kind in ("sequence_type", "optional_type"):
        inner, _ = type_of(getattr(proto, kind).elem_type)
        return f"{'seq' if kind == 'sequence_type' else 'optional'}({inner})" if inner else None, None
    return None, None


def attribute_value(attribute: AttributeProto) -> Any:
    """The attribute as Python values: numbers, str (bytes where it is not UTF-8), lists, numpy arrays for tensors."""
    if attribute.ref_attr_name:
        return None  # inside a local function: the value is given by the call
    value = helper.get_attribute_value(attribute)
    if attribute.type == AttributeProto.TENSOR:
        return numpy_helper.to_array(value) if value.data_location != TensorProto.EXTERNAL else value
    if attribute.type == AttributeProto.STRING:
        return _text(value)
    if attribute.type == AttributeProto.STRINGS:
        return [_text(v) for v in value]
    if attribute.type == AttributeProto.TENSORS:
        return [numpy_helper.to_array(v) for v in value]
    return list(value) if attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS) else value


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _constant_array(attributes: Mapping[str, Any]) -> np.ndarray[Any, Any] | None:
    """What a Constant node holds (https://onnx.ai/onnx/operators/onnx__Constant.html)."""
    dtypes = {"value_float": "float32", "value_floats": "float32", "value_int": "int64", "value_ints": "int64"}
    for name, value in attributes.items():
        if name == "value" and isinstance(value, np.ndarray):
            return value
        if name in dtypes and value is not None:
            return np.asarray(value, dtype=dtypes[name])
        if name in ("value_string", "value_strings"):
            return np.asarray(value, dtype=object)
    return None


def _sizes(shape: onnx.TensorShapeProto) -> Iterator[int | str]:
    dims: Iterable[onnx.TensorShapeProto.Dimension] = shape.dim
    for dim in dims:
        yield dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?"
