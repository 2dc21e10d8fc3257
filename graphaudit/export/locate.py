"""Which node torch translated wrongly: the first whose value in ONNX Runtime is not that of the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx
import torch
from torch import fx

from graphaudit.equivalence.reference import Reference
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.program import Program
from graphaudit.results import PassRow
from graphaudit.runtimes.onnxruntime import RuntimeRefused, runner

_DIGITS = 64  # units in the last place of the largest element: what operators differ by is less


def name_first_difference(program: Program, model: OnnxModel, reference: Reference, row: PassRow) -> None:
    """Name the operator that was translated wrongly, and its line, in the row of an export that does not hold."""
    for number in range(len(reference.samples) if not program.noise else 0):
        node = first_difference(program, model, reference.answers(number)[0])
        if node is not None and row.verdict is not None:
            row.place = program.place(node)
            row.verdict.note += f"; {node.target} is the first operator whose value differs"
            return


def first_difference(program: Program, model: OnnxModel, inputs: Sequence[torch.Tensor]) -> fx.Node | None:
    """The first call of the main graph after which the two differ on flat `inputs`; None where that cannot be seen.

    The exporter calls values after the nodes that they come from; a node whose value has another name is passed over.
    """
    calls = [n for n in program.graph.nodes if n.op == "call_function"]
    results = program.graph.output_node().args[0]
    named = {n.name: n.name for n in calls}
    named |= {n.name: slot.name for n, slot in zip(results, program.outputs) if isinstance(n, fx.Node)}  # type: ignore[arg-type]
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    present = {name for node in proto.graph.node for name in node.output}
    known = {o.name for o in proto.graph.output}
    shown = [name for name in dict.fromkeys(named.values()) if name in present]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in shown if name not in known)
    try:
        computed = runner(replace(model, proto=proto))(inputs)
    except RuntimeRefused:
        return None
    got = dict(zip([o.name for o in proto.graph.output], computed))
    wanted = program.values(inputs)
    return next((n for n in calls if named[n.name] in got and not _alike(wanted[n.name], got[named[n.name]])), None)


def _alike(wanted: object, got: torch.Tensor) -> bool:
    if not isinstance(wanted, torch.Tensor) or wanted.is_complex():
        return True
    if wanted.shape != got.shape or not wanted.is_floating_point():
        return wanted.shape == got.shape and bool((wanted == got).all())
    largest = wanted[wanted.isfinite()].abs()
    bound = _DIGITS * torch.finfo(wanted.dtype).eps * (float(largest.max()) if largest.numel() else 1.0)
    return torch.allclose(wanted, got.to(wanted.dtype), rtol=0.0, atol=bound, equal_nan=True)
