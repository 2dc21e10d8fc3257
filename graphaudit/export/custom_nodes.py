"""Registered operators that are one node of the user's own domain, with their plain version as that node's body.

The body is a model-local function of the ONNX model: a runtime with a kernel for the node runs that, ONNX Runtime runs
the body otherwise (https://onnx.ai/onnx/repo-docs/IR.html#functions). Calls whose bodies differ, because an attribute
or a fixed size is another, are told apart by the function's `overload`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import onnx
import onnx_ir as ir
import onnxscript
import torch
from torch import fx, nn

from graphaudit.custom_ops import CustomOp, OnnxNode, registered
from graphaudit.graphs.program import Program
from graphaudit.interface import Interface
from graphaudit.rulebook.target import Target

_OVERLOADS = 10  # the IR version from which on functions have overloads (onnx.proto)
_UNKNOWN_SIZE = 2  # of a dimension that depends on data; 0 and 1 would be special


class BodyRefused(Exception):
    """The plain version of an operator cannot be the body of its node."""


def translations(target: Target) -> dict[Any, Callable[..., Any]]:
    """How torch.onnx writes the operators that are a node for `target`: its `custom_translation_table`."""
    return {custom.op: _translation(custom, node) for custom, node in _kept(target)}


def add_bodies(model: ir.Model, program: Program, target: Target, translate: Callable[[Program], ir.Model]) -> None:
    """Give each node of a registered operator its body, in place; `translate` makes a model of a program.

    Raises BodyRefused, and whatever `translate` raises.
    """
    kept = {(node.domain, node.op_type): (custom, node) for custom, node in _kept(target)}
    nodes = [n for graph in model.graphs() for n in graph if (n.domain, n.op_type) in kept]
    sizes = _sizes(program)
    known: dict[bytes, ir.Function] = {}
    for node in nodes:
        custom, wanted = kept[node.domain, node.op_type]
        proto = _function(custom, wanted, translate(_plain_program(custom, node, sizes)))
        content = proto.SerializeToString()
        if content not in known:
            count = sum(f.name == wanted.op_type and f.domain == wanted.domain for f in known.values())
            proto.overload = str(count) if count else ""
            known[content] = ir.serde.deserialize_function(proto)
            model.functions[known[content].identifier()] = known[content]
        node.overload = known[content].overload
        model.opset_imports[wanted.domain] = wanted.version
        model.ir_version = max(model.ir_version, _OVERLOADS)


def _kept(target: Target) -> Iterator[tuple[CustomOp, OnnxNode]]:
    for custom in registered():
        node = custom.node_for(target.name)
        if node is not None:
            yield custom, node


def _translation(custom: CustomOp, node: OnnxNode) -> Callable[..., Any]:
    write = onnxscript.values.Op(
        onnxscript.values.Opset(node.domain, node.version), node.op_type, _op_schema(custom, node)
    )
    kinds = {a.name: str(a.type) for a in custom.op._schema.arguments}

    def translate(*args: Any, **kwargs: Any) -> Any:
        given = custom.bind(args, kwargs)
        inputs = [given[name] for name in custom.tensors]
        varying = [name for name in custom.attributes if isinstance(given[name], ir.Value)]
        if varying:
            raise BodyRefused(f"{varying[0]} of {custom.name} varies, and the attribute of a node is a constant")
        return write(*inputs, **{name: _as_attribute(kinds[name], given[name]) for name in custom.attributes})

    translate.__name__ = node.op_type
    return translate


def _as_attribute(kind: str, value: Any) -> Any:
    if kind.startswith("List["):
        return [_as_attribute(kind[5:-1], item) for item in value]
    return {"bool": int, "int": int, "float": float, "str": str}[kind](value)


_ATTRIBUTES = {
    **dict.fromkeys(("bool", "int"), onnx.defs.OpSchema.AttrType.INT),
    **dict.fromkeys(("List[bool]", "List[int]"), onnx.defs.OpSchema.AttrType.INTS),
    "float": onnx.defs.OpSchema.AttrType.FLOAT,
    "List[float]": onnx.defs.OpSchema.AttrType.FLOATS,
    "str": onnx.defs.OpSchema.AttrType.STRING,
}


def _op_schema(custom: CustomOp, node: OnnxNode) -> onnx.defs.OpSchema:
    """Inputs and outputs of any type, each its own."""
    every = onnx.defs.get_schema("Identity").type_constraints[0].allowed_type_strs
    results = [f"result_{i}" for i in range(len(custom.op._schema.returns))]
    return onnx.defs.OpSchema(
        node.op_type,
        node.domain,
        node.version,
        inputs=[onnx.defs.OpSchema.FormalParameter(name, f"T_{name}") for name in custom.tensors],
        outputs=[onnx.defs.OpSchema.FormalParameter(name, f"T_{name}") for name in results],
        type_constraints=[(f"T_{name}", every, "") for name in [*custom.tensors, *results]],
        attributes=[
            onnx.defs.OpSchema.Attribute(a.name, _ATTRIBUTES[str(a.type)], "", required=True)
            for a in custom.op._schema.arguments
            if str(a.type) != "Tensor"
        ],
    )


def _sizes(program: Program) -> dict[str, int]:
    """The example's size for each dimension that varies, by the name that the exporter gives it."""
    found: dict[str, int] = {}
    for module in program.exported.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            value = node.meta.get("val")
            symbols = [getattr(size, "node", None) for size in getattr(value, "shape", ())]
            found.update((str(symbol), symbol.hint) for symbol in symbols if symbol is not None and symbol.has_hint())
    return found


class _Plain(nn.Module):
    """The plain version with its attributes filled in."""

    def __init__(self, custom: CustomOp, attributes: Mapping[str, Any]) -> None:
        super().__init__()
        self.custom, self.attributes = custom, attributes

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.custom.run_plain(**dict(zip(self.custom.tensors, tensors)), **self.attributes)


def _plain_program(custom: CustomOp, node: ir.Node, sizes: Mapping[str, int]) -> Program:
    """The plain version on inputs like those of `node`, dimensions that vary left open."""
    tensors, dims = [], []
    for name, value in zip(custom.tensors, node.inputs, strict=True):
        if value is None or value.dtype is None or value.shape is None:
            raise BodyRefused(f"the dtype and shape of {name} of {custom.name} are not known")
        shape = [d if isinstance(d, int) else max(sizes.get(str(d), 0), _UNKNOWN_SIZE) for d in value.shape]
        dtype = getattr(torch, value.dtype.numpy().name)
        tensors.append(torch.zeros(shape, dtype=dtype))
        dims.append({i: torch.export.Dim.DYNAMIC for i, d in enumerate(value.shape) if not isinstance(d, int)})
    plain = _Plain(custom, {name: _value(node.attributes[name], custom, name) for name in custom.attributes})
    try:
        exported = torch.export.export(plain, tuple(tensors), dynamic_shapes={"tensors": tuple(dims)}, strict=False)
    except Exception as error:  # the user's code, and torch.export raises errors of every kind
        reason = " ".join(str(error).split())[:300]
        raise BodyRefused(f"the plain version of {custom.name} cannot be captured: {reason}") from error
    spec = exported.call_spec
    return Program(exported.run_decompositions({}), Interface((), (), (), spec.in_spec, spec.out_spec))


def _value(attribute: Any, custom: CustomOp, name: str) -> Any:
    """The attribute as the plain version takes it."""
    kind = next(str(a.type) for a in custom.op._schema.arguments if a.name == name)
    value = list(attribute.value) if kind.startswith("List[") else attribute.value
    return bool(value) if kind == "bool" else value


def _function(custom: CustomOp, node: OnnxNode, model: ir.Model) -> onnx.FunctionProto:
    """The model as a function; constants stand in it as nodes."""
    own = {(other.domain, other.op_type) for c in registered() if (other := c.onnx) is not None}
    if any((n.domain, n.op_type) in own for n in model.graph):
        raise BodyRefused(f"the plain version of {custom.name} calls an operator that is a node itself")
    _copy_passed(model.graph)
    proto = ir.to_proto(model)
    constants = [
        onnx.helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in proto.graph.initializer
    ]
    return onnx.helper.make_function(
        node.domain,
        node.op_type,
        [i.name for i in proto.graph.input],
        [o.name for o in proto.graph.output],
        [*constants, *proto.graph.node],
        list(proto.opset_import),
        list(custom.attributes),
    )


def _copy_passed(graph: ir.Graph) -> None:
    """An output that is an input, or the same value as another, gets a node of its own."""
    seen: set[int] = set()
    for index, value in enumerate(list(graph.outputs)):
        if value.producer() is None or id(value) in seen:
            copied = ir.node("Identity", [value])
            copied.outputs[0].name = f"passed_{index}"
            graph.append(copied)
            graph.outputs[index] = copied.outputs[0]
        seen.add(id(value))
