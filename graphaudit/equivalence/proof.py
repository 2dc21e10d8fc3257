"""What can be proved of a step from one ONNX model to the next, without running either.

onnxsim's `certify` (https://github.com/onnxsim/onnxsim, 0.8) gives both models' values an identity made of operator,
attributes, constants by their bytes, and the identities of the operands. Results of one identity are the same, bit by
bit and on every input, NaN and infinity included. Where the models differ, it asks Z3, if that is installed, whether
the two sides can differ in exact arithmetic, with a tolerance of zero. Before, both models are put in plain form: an
`Identity` is its operand, and what depends on constants alone is what ONNX Runtime computes of them.

`certify` does not look into branches and loops, and takes two draws of one kind for the same: such models are refused.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
import onnx

from graphaudit.equivalence.verdict import Proof, ProofStep
from graphaudit.graphs.onnx_files import weight_bytes
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.onnx_nodes import DRAWS, all_nodes, reads
from graphaudit.graphs.onnx_view import infer_types, type_of
from graphaudit.quiet import quiet
from graphaudit.runtimes.onnxruntime import RuntimeRefused, run_session, session

_SECONDS = 10  # for Z3, over all differences of a step
_LARGEST = 1 << 20  # elements of a constant that is computed
_MOST_WEIGHTS = 1 << 28  # bytes; both models are copied
_NEEDS_Z3 = "z3-solver is not installed"


def prove(before: OnnxModel, after: OnnxModel) -> Proof:
    """Which outputs of `after` are proved to be those of `before`, and every rewrite that this rests or fails on."""
    outputs = [o.name for o in before.proto.graph.output]
    reason = _why_refused(before.proto, after.proto)
    if reason:
        return Proof(prover=_prover(), compared=outputs, reason=reason)
    from onnxsim.certify import certify  # here, because it takes most of a second

    try:
        with quiet(native=True):
            report = certify(
                _plain(before.proto),
                _plain(after.proto),
                atol=0.0,
                rtol=0.0,
                total_timeout_ms=_SECONDS * 1000 if _has_z3() else 0,
            )
    except RecursionError:
        return Proof(prover=_prover(), compared=outputs, reason="the graph is too deep")
    proved = [o for o in outputs if report.outputs[o].startswith("proved")]
    # A pair with children is the same if they are; the others are where the models differ.
    steps = [_step(w, before, after) for w in report.windows if not w.children]
    return Proof(prover=_prover(), proved=proved, compared=[o for o in outputs if o not in proved], steps=steps)


def _why_refused(before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    nodes = [node for model in (before, after) for node in all_nodes(model.graph)]
    drawing = next((n.op_type for n in nodes if n.op_type in DRAWS), None)
    if drawing:
        return f"{drawing} draws random numbers"
    if any(set(reads(n)) - set(n.input) for n in nodes):
        return "the graphs of its branches and loops read values from outside"
    if [f.SerializeToString() for f in before.functions] != [f.SerializeToString() for f in after.functions]:
        return "its functions are not the same as before"
    if max(weight_bytes(before), weight_bytes(after)) > _MOST_WEIGHTS:
        return "the weights are larger than 256 MB"
    return ""


def _step(window: Any, before: OnnxModel, after: OnnxModel) -> ProofStep:
    proved = window.status.startswith("proved")
    how = f"{window.status.partition('-')[2]}: {window.detail}" if proved else _why_open(window)
    place = before.places.get(window.orig) or after.places.get(window.simplified)
    return ProofStep(before=window.orig, after=window.simplified, proved=proved, how=how, place=place)


def _why_open(window: Any) -> str:
    if not _has_z3():
        return _NEEDS_Z3
    if window.status == "refuted":
        return "not the same in exact arithmetic"
    return str(window.detail)


def _has_z3() -> bool:
    return find_spec("z3") is not None


@cache
def _prover() -> str:
    return f"onnxsim {version('onnxsim')}" + (f" with Z3 {version('z3-solver')}" if _has_z3() else "")


def _plain(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of the model without identities, in which what depends on constants alone is a constant."""
    plain = onnx.ModelProto()
    plain.CopyFrom(proto)
    _drop_identities(plain.graph)
    _compute_constants(plain)
    return plain


def _drop_identities(graph: onnx.GraphProto) -> None:
    """Let the readers of an Identity read its operand. One that is an output gives its name to the operand, where that
    is computed and has no name to keep."""
    outputs = {o.name for o in graph.output}
    made = {name for node in graph.node for name in node.output}
    names: dict[str, str] = {}  # old → new
    kept = []
    for node in graph.node:
        if node.op_type != "Identity" or node.domain or not node.input:
            kept.append(node)
            continue
        source, result = names.get(node.input[0], node.input[0]), node.output[0]
        if result not in outputs:
            names[result] = source
        elif source in made and source not in outputs:
            names = {old: result if new == source else new for old, new in names.items()} | {source: result}
        else:
            kept.append(node)
    renamed = [_renamed(node, names) for node in kept]
    graph.ClearField("node")
    graph.node.extend(renamed)


def _renamed(node: onnx.NodeProto, names: dict[str, str]) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for field in (copy.input, copy.output):
        for index, name in enumerate(field):
            field[index] = names.get(name, name)
    return copy


def _compute_constants(model: onnx.ModelProto) -> None:
    """Replace nodes that read nothing but constants by what ONNX Runtime computes, where it can and that is small."""
    graph = model.graph
    constant = {t.name for t in graph.initializer}
    inferred = infer_types(model)
    small = {v.name for v in (*inferred.value_info, *inferred.output) if _is_small(v)}
    computed = []
    for node in graph.node:
        known = all(name in constant for name in node.input if name) and small.issuperset(filter(None, node.output))
        if known and not any(a.HasField("g") or a.graphs for a in node.attribute):
            computed.append(node)
            constant.update(node.output)
    values = _run(model, computed)
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in values.items())
    kept = [node for node in graph.node if values.keys().isdisjoint(node.output)]
    _keep(graph, kept)


def _keep(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> None:
    copies = [_renamed(node, {}) for node in nodes]
    graph.ClearField("node")
    graph.node.extend(copies)


def _is_small(info: onnx.ValueInfoProto) -> bool:
    dtype, shape = type_of(info.type)
    if dtype is None or dtype == "string" or shape is None:
        return False
    sizes = [size for size in shape if not isinstance(size, str)]
    return len(sizes) == len(shape) and math.prod(sizes) <= _LARGEST


def _run(model: onnx.ModelProto, nodes: Collection[onnx.NodeProto]) -> dict[str, np.ndarray[Any, Any]]:
    """What ONNX Runtime, without optimisations, makes of nodes that need no input; nothing where it cannot run them."""
    if not nodes:
        return {}
    read = {name for node in nodes for name in node.input}
    constants = [t for t in model.graph.initializer if t.name in read]
    results = [onnx.ValueInfoProto(name=name) for node in nodes for name in node.output if name]
    part = onnx.helper.make_graph(list(nodes), "constants", [], results, constants)
    proto = onnx.helper.make_model(
        part, opset_imports=model.opset_import, ir_version=model.ir_version, functions=model.functions
    )
    try:
        opened = session(OnnxModel(proto), optimise=False)
        return {o.name: array for o, array in zip(results, run_session(opened, {}), strict=True)}
    except RuntimeRefused:  # what ONNX Runtime does not run is compared as it stands
        return {}
