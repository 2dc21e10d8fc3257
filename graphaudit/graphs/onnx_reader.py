"""Reads an `.onnx` file that may come from anywhere: damaged, hostile, or newer than this environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx.external_data_helper import ExternalDataInfo, load_external_data_for_model, uses_external_data

from graphaudit.errors import ModelError
from graphaudit.graphs.onnx_files import WEIGHTS_LIMIT, weight_bytes
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.onnx_nodes import all_nodes, subgraphs
from graphaudit.text import one_line, shown_path, suggestion

_STRANGE = "not.in.the.standard"


def load_onnx(path: str | Path) -> OnnxModel:
    """The model, with external data read only from below its own folder.

    Operators that the standard does not have, as vendors put them into its domain, are no fault of the file: targets
    say what they think of them. Raises ModelError if it is missing, empty, truncated, cyclic, out of order, invalid, of
    a later IR version, or if it points to data outside its folder.
    """
    file = Path(path)
    model = _parse(file)
    _check_version(model, file)
    _check_external(model, file)
    if not model.graph.output:
        raise _damaged(file, "its graph has no outputs")
    _check_order(model.graph, set(), file)
    try:
        if any(uses_external_data(t) for t in _tensors(model)):
            load_external_data_for_model(model, str(file.resolve().parent))
        if weight_bytes(model) <= WEIGHTS_LIMIT:  # the checker serialises the model, which protobuf refuses above 2 GiB
            onnx.checker.check_model(_without_strangers(model))
    except (onnx.checker.ValidationError, OSError, ValueError, RuntimeError) as error:
        raise _damaged(file, one_line(str(error))) from error
    return OnnxModel.from_proto(model, str(path))


def _without_strangers(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model for the checker: operators that ai.onnx does not have at its opset are in a domain of their own."""
    opset = next((i.version for i in model.opset_import if i.domain in ("", "ai.onnx")), None)
    if opset is None or all(_is_standard(node, opset) for node in all_nodes(model.graph)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.opset_import.add(domain=_STRANGE, version=1)
    for node in all_nodes(copy.graph):
        if not _is_standard(node, opset):
            node.domain = _STRANGE
    return copy


def _is_standard(node: onnx.NodeProto, opset: int) -> bool:
    """False for an operator of ai.onnx that is not there at the opset, not yet or no more."""
    if node.domain not in ("", "ai.onnx"):
        return True
    if not onnx.defs.has(node.op_type, max_inclusive_version=opset, domain=""):
        return False
    return not onnx.defs.get_schema(node.op_type, max_inclusive_version=opset, domain="").deprecated


def _parse(file: Path) -> onnx.ModelProto:
    if not file.exists():
        near = suggestion(file.name, [p.name for p in file.parent.iterdir()]) if file.parent.is_dir() else ""
        raise ModelError(f"there is no file {shown_path(file)}", near or "Check the path.")
    if not file.is_file():
        raise ModelError(f"{shown_path(file)} is not a file", "Give the path of an .onnx file.")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ModelError(f"{shown_path(file)} cannot be read: {error.strerror}", "Check its permissions.") from error
    if not content:
        raise ModelError(f"{shown_path(file)} is empty", "Export the model again.")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise ModelError(
            f"{shown_path(file)} is truncated or not an ONNX model ({len(content):,} bytes)", "Export or copy it again."
        ) from error
    if not model.HasField("graph"):
        raise ModelError(f"{shown_path(file)} holds no graph", "Export the model again.")
    return model


def _check_version(model: onnx.ModelProto, file: Path) -> None:
    if model.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"{shown_path(file)} is of IR version {model.ir_version}; onnx {onnx.__version__} reads up to "
            f"{onnx.IR_VERSION}",
            "Install a later onnx, or export with an earlier IR version.",
        )
    if model.ir_version < 3:
        raise ModelError(
            f"{shown_path(file)} is of IR version {model.ir_version}; opsets came with 3", "Export the model again."
        )


def _check_external(model: onnx.ModelProto, file: Path) -> None:
    folder = file.resolve().parent
    for tensor in _tensors(model):
        if not uses_external_data(tensor):
            continue
        info = ExternalDataInfo(tensor)
        name, location = one_line(tensor.name, 80), one_line(info.location, 120)
        target = (folder / info.location).resolve() if "\0" not in info.location else folder.parent
        if Path(info.location).is_absolute() or not target.is_relative_to(folder):
            raise ModelError(
                f"{shown_path(file)}: the data of tensor {name!r} lie outside the model's folder, at {location!r}",
                "It is refused. Put the data beside the model and name it relative to it.",
            )
        if not target.is_file():
            raise ModelError(
                f"{shown_path(file)}: the data file {location!r} of tensor {name!r} is missing",
                "Copy it beside the model.",
            )
        end = (info.offset or 0) + (info.length or 0)
        if end > target.stat().st_size:
            raise _damaged(file, f"the data file {location!r} ends before tensor {name!r} does")


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of the model, those in attributes, subgraphs and functions included."""
    for training in model.training_info:
        yield from _graph_tensors(training.initialization)
        yield from _graph_tensors(training.algorithm)
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from _node_tensors(node)


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _node_tensors(node)


def _node_tensors(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        for sparse in [attribute.sparse_tensor, *attribute.sparse_tensors]:
            yield from (sparse.values, sparse.indices)
    for graph in subgraphs(node):
        yield from _graph_tensors(graph)


def _check_order(graph: onnx.GraphProto, outer: set[str], file: Path) -> None:
    """Raise ModelError unless each node comes after what it reads, as the ONNX specification (IR.md) requires."""
    known = outer | {i.name for i in graph.input} | {i.name for i in graph.initializer}
    known |= {s.values.name for s in graph.sparse_initializer}
    made = {name: index for index, node in enumerate(graph.node) for name in node.output}
    for index, node in enumerate(graph.node):
        label = one_line(node.name or node.op_type, 80)
        for name in node.input:
            if not name or name in known:
                continue
            if name not in made:
                raise _damaged(file, f"node {label!r} reads {one_line(name, 80)!r}, which nothing gives")
            if _reaches(graph, made, made[name], index):
                raise _damaged(file, f"its graph has a cycle through node {label!r}")
            raise _damaged(file, f"its nodes are out of order: {label!r} comes before what it reads")
        for inner in subgraphs(node):
            _check_order(inner, known, file)
        known.update(node.output)


def _reaches(graph: onnx.GraphProto, made: dict[str, int], start: int, goal: int) -> bool:
    """Whether node `start` depends on node `goal`."""
    stack, seen = [start], set[int]()
    while stack:
        index = stack.pop()
        if index == goal:
            return True
        if index not in seen:
            seen.add(index)
            stack.extend(made[name] for name in graph.node[index].input if name in made)
    return False


def _damaged(file: Path, what: str) -> ModelError:
    return ModelError(f"{shown_path(file)} is not a valid ONNX model: {what}", "Export it again, or repair it.")
