"""A small part of a graph around some of its nodes, cut out with the values that cross the cut."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from torch import fx

from graphaudit.findings import Place
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.onnx_nodes import reads
from graphaudit.graphs.onnx_view import infer_types
from graphaudit.graphs.program import Program
from graphaudit.rewrite.replay import pack
from graphaudit.text import one_line


class Uncuttable(Exception):
    """The region cannot be written down; the message says why."""


@dataclass(frozen=True)
class Region:
    """The source of a file that rebuilds the region, up to the line that replays the pass.

    It defines `build()`, `example_inputs()` and, if `dynamic`, `dynamic_sizes()`: for each input, the dimensions that
    vary.
    """

    nodes: tuple[str, ...]
    source: str
    dynamic: bool = False


def cut_program(program: Program, values: dict[str, Any], keep: Collection[str], *, dynamic: bool) -> Region:
    """The calls named `keep` of the main graph, on the `values` that they read from outside.

    Parameters, buffers and constants stay such; numbers become literals. With `dynamic`, sizes that vary in the graph
    vary in the region too. Raises Uncuttable.
    """
    kept = [n for n in program.graph.nodes if n.op == "call_function" and n.name in keep]
    names = {n.name for n in kept}
    outside = dict.fromkeys(i for n in kept for i in n.all_input_nodes if i.name not in names)
    literals = {n.name: _literal(values[n.name]) for n in outside if not isinstance(values[n.name], torch.Tensor)}
    tensors = [n for n in outside if n.name not in literals]
    constants = [n for n in tensors if program.value(n) is not None]
    inputs = [n for n in tensors if program.value(n) is None]
    varying = [_varying(n) if dynamic else {} for n in inputs]
    sizes = {size: f"{_name(n)}.size({d})" for n, dims in zip(inputs, varying) for d, size in dims.items()}
    literals |= {name: sizes[size] for name, size in _symbols(outside) if size in sizes}
    results = [n for n in kept if isinstance(values[n.name], torch.Tensor) and _leaves(n, names)]
    if not results or not inputs:
        raise Uncuttable("no tensor enters or leaves the region")
    body = [f"        {_name(n)} = {_call(n, literals)}{_comment(program.place(n))}" for n in kept]
    lines = [
        "class Graph(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        *(f'        self.register_buffer("{_name(n)}", {_tensor(values[n.name])})' for n in constants),
        "",
        f"    def forward(self, {', '.join(map(_name, inputs))}):",
        *(f"        {_name(n)} = self.{_name(n)}" for n in constants),
        *body,
        f"        return ({', '.join(map(_name, results))},)",
        "",
        "",
        "def build():",
        "    return Graph()",
        "",
        "",
        "def example_inputs():",
        "    return (",
        *(f"        {_tensor(values[n.name])}," for n in inputs),
        "    )",
    ]
    if sizes:
        lines += ["", "", "def dynamic_sizes():", f"    return {tuple(tuple(dims) for dims in varying)!r}"]
    return Region(tuple(n.name for n in kept), "\n".join(lines) + "\n", bool(sizes))


def _varying(node: fx.Node) -> dict[int, str]:
    """The dimensions of a node's tensor whose sizes vary, and how they are written."""
    return {d: str(size) for d, size in enumerate(node.meta["val"].shape) if isinstance(size, torch.SymInt)}


def _symbols(nodes: Iterable[fx.Node]) -> list[tuple[str, str]]:
    """The names of nodes that are sizes that vary, and how these are written."""
    return [(n.name, str(n.meta["val"])) for n in nodes if isinstance(n.meta.get("val"), torch.SymInt)]


def cut_model(
    model: OnnxModel, values: dict[str, np.ndarray[Any, Any]], keep: Collection[str], *, dynamic: bool
) -> Region:
    """The nodes of an ONNX model named `keep`, on the `values` that they read from outside.

    With `dynamic`, sizes that vary in the model vary in the region too. Raises Uncuttable.
    """
    graph = model.proto.graph
    kept = [n for n in graph.node if (n.name or n.output[0]) in keep]
    made = {name for n in kept for name in n.output}
    read = [name for n in kept for name in reads(n)]
    constants = [t for t in graph.initializer if t.name in read]
    held = {t.name for t in constants}
    inputs = [name for name in dict.fromkeys(read) if name not in made and name not in held]
    elsewhere = {name for n in graph.node if n not in kept for name in reads(n)} | {o.name for o in graph.output}
    outputs = [name for n in kept for name in n.output if name in elsewhere]
    if not inputs or not outputs or any(name not in values for name in (*inputs, *outputs)):
        raise Uncuttable("no tensor enters or leaves the region")
    inferred = infer_types(model.proto) if dynamic else onnx.GraphProto()
    types = {v.name: v for v in (*inferred.input, *inferred.value_info, *inferred.output)}
    entries, exits = ([types.get(n) or _info(n, values[n]) for n in names] for names in (inputs, outputs))
    part = onnx.helper.make_graph(kept, "region", entries, exits, constants)
    proto = onnx.helper.make_model(part, opset_imports=model.proto.opset_import, ir_version=model.proto.ir_version)
    text = "\n".join(f"# {line}" for line in onnx.printer.to_text(proto).splitlines())
    lines = [
        text,
        "def build():",
        f'    return onnx.load_from_string(unpack("{pack(proto.SerializeToString())}"))',
        "",
        "",
        "def example_inputs():",
        "    return (",
        *(f"        {_tensor(torch.from_numpy(np.asarray(values[n])))}," for n in inputs),
        "    )",
    ]
    return Region(tuple(n.name or n.output[0] for n in kept), "\n".join(lines) + "\n")


def model_values(model: OnnxModel, feeds: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """What ONNX Runtime computes for every value of the main graph."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    known = {o.name for o in proto.graph.output}
    names = [name for n in proto.graph.node for name in n.output if name and name not in known]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = session.run(None, feeds)
    return {**feeds, **{o.name: r for o, r in zip(session.get_outputs(), results)}}


def _leaves(node: fx.Node, names: Collection[str]) -> bool:
    return any(user.name not in names for user in node.users)


def _name(node: fx.Node) -> str:
    return f"{node.name}_" if node.name in ("self", "operator", "torch", "nn", "inf", "nan") else node.name


def _comment(place: Place | None) -> str:
    return f"  # {one_line(place.file)}:{place.line}" if place else ""


def _call(node: fx.Node, literals: dict[str, str]) -> str:
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        function = f"torch.ops.{target}"
    elif getattr(target, "__module__", "") in ("_operator", "operator", "math"):
        function = f"{target.__module__.lstrip('_')}.{target.__name__}"  # type: ignore[union-attr]
    else:
        raise Uncuttable(f"{node.name} calls {target}, which holds graphs of its own")
    given = [_code(a, literals) for a in node.args]
    given += [f"{key}={_code(a, literals)}" for key, a in node.kwargs.items()]
    return f"{function}({', '.join(given)})"


def _code(argument: Any, literals: dict[str, str]) -> str:
    if isinstance(argument, fx.Node):
        return literals.get(argument.name) or _name(argument)
    if isinstance(argument, list | tuple):
        return f"[{', '.join(_code(a, literals) for a in argument)}]"
    return _literal(argument)


def _literal(value: Any) -> str:
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return str(value)
    if isinstance(value, bool | int | float | complex | str | None):
        return repr(value)  # `inf` and `nan` are imported by the file
    raise Uncuttable(f"a {type(value).__name__} is no literal")


def _tensor(value: torch.Tensor) -> str:
    data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    dtype = str(value.dtype).removeprefix("torch.")
    return f'tensor("{dtype}", {tuple(value.shape)}, "{pack(data)}")'


def _info(name: str, value: np.ndarray[Any, Any]) -> onnx.ValueInfoProto:
    kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, value.shape)
