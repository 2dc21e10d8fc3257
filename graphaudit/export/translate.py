"""FX → ONNX through torch's exporter, with the names, order and dimensions of the interface."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir
import torch
from onnx_ir.passes import common as ir_passes
from torch import fx
from torch._guards import detect_fake_mode

from graphaudit.export.bfloat16 import widen_bfloat16
from graphaudit.export.custom_nodes import BodyRefused, add_bodies, translations
from graphaudit.export.exact_rules import exact_no_ops
from graphaudit.export.scalars import keep_numbers
from graphaudit.findings import Place
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.open_sizes import open_sizes
from graphaudit.graphs.places import place_in_trace
from graphaudit.graphs.program import Program
from graphaudit.graphs.recurrent import whole_recurrent_layers
from graphaudit.interface import Slot
from graphaudit.quiet import quiet
from graphaudit.rulebook.extra_translations import EXTRA
from graphaudit.rulebook.target import Target
from graphaudit.rulebook.torch_registry import one_registry

_FAILED_NODE = re.compile(r"Error when translating node %(\w+)")
_FAILED_OP = re.compile(r"No ONNX function found for <OpOverload\(op='([\w.]+)', overload='(\w+)'\)>")


@dataclass(frozen=True)
class MissingTranslation:
    """A node that the exporter cannot translate: its operator (`aten.lgamma.default`), name, source line and why."""

    op: str
    node: str
    place: Place | None
    message: str


class ExportRefused(Exception):
    """There is no ONNX model. `reason` is one line; `missing` names every node at fault, where nodes are at fault, and
    `place` is the line at fault where no node is."""

    def __init__(
        self, reason: str, missing: list[MissingTranslation] | None = None, place: Place | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing or []
        self.place = place


def to_onnx(program: Program, target: Target) -> OnnxModel:
    """The program as an ONNX model at `target.opset`. Its only model-local functions are the bodies of custom nodes.

    Inputs and outputs carry the names of the interface, in its order, and noise follows the arguments; an input that
    the graph does not use is still an input. Dynamic dimensions carry the interface's names. Raises ExportRefused.
    """
    _refuse_complex(program)
    with quiet(), one_registry(), exact_no_ops(), _sizes_left_open(program):
        model = _flat(program, target)
        _check_interface(model, program)
        try:
            add_bodies(model, program, target, lambda plain: _flat(plain, target))
        except BodyRefused as refused:
            raise ExportRefused(str(refused)) from refused
        _name_dimensions(model, program.inputs)
        _name_values(model, program)
        result = OnnxModel.from_proto(ir.to_proto(model))
    if result.opset != target.opset:
        raise ExportRefused(f"torch exports this policy at opset {result.opset}, not at {target.opset}")
    interface = program.interface
    result.arguments, result.guards, result.drawn = interface.inputs, interface.guards, interface.drawn
    result.noise = program.noise
    _fill_places(result, program)
    strip_metadata(result)
    return result


@contextmanager
def _sizes_left_open(program: Program) -> Iterator[None]:
    """The exporter traces anew, and fixes no size that varies. It makes those that data decides anew, too; none of them
    is left for the next trace of the program to ask for."""
    try:
        with whole_recurrent_layers(), open_sizes():
            yield
    finally:
        mode = detect_fake_mode([node.meta["val"] for node in program.graph.find_nodes(op="placeholder")])
        if mode is not None and mode.shape_env is not None:
            mode.shape_env.pending_fresh_unbacked_symbols.clear()


def _flat(program: Program, target: Target) -> ir.Model:
    """What torch makes of the program, its functions inlined."""
    model = _translate(keep_numbers(program), target)
    if model.functions:
        ir_passes.InlinePass()(model)
    ir_passes.RemoveUnusedOpsetsPass()(model)
    widen_bfloat16(model, target)
    return model


def strip_metadata(model: OnnxModel) -> None:
    """Drop the exporter's metadata in place: `places` has the source lines, and a model should not name host paths."""
    graph = model.proto.graph
    graph.ClearField("metadata_props")
    for values in (graph.input, graph.output, graph.value_info):
        for value in values:
            value.ClearField("metadata_props")
    for tensor in graph.initializer:
        tensor.ClearField("metadata_props")
    pending: list[onnx.GraphProto | onnx.FunctionProto] = [graph, *model.proto.functions]
    while pending:
        for node in pending.pop().node:
            node.ClearField("metadata_props")
            node.ClearField("doc_string")
            pending.extend(a.g for a in node.attribute if a.HasField("g"))


def _fill_places(model: OnnxModel, program: Program) -> None:
    """Places for nodes of the exporter's optimiser, which names their values after FX nodes (`split_split_0`)."""
    known = {node.name: place for node in program.graph.nodes if (place := program.place(node)) is not None}
    for node in model.proto.graph.node:
        if model.place(node) is None:
            stems = (name[:end] for name in node.output for end in range(len(name), 0, -1))
            found = next((known[stem] for stem in stems if stem in known), None)
            if found is not None:
                model.places.update((name, found) for name in node.output)
    model.inherit_places()


def _translate(program: Program, target: Target, *, decompose: bool = True) -> ir.Model:
    try:
        exported: Any = torch.onnx.export(
            program.exported,
            dynamo=True,
            opset_version=target.opset,
            custom_translation_table={**EXTRA, **translations(target)},
            verbose=False,
        )
    except torch.onnx.errors.OnnxExporterError as error:
        refusal = _refusal(program, target, error)
        simpler = _decomposed(program, refusal.missing) if decompose else None
        if simpler is None:
            raise refusal from error
        return _translate(simpler, target, decompose=False)
    except Exception as error:  # torch.onnx and onnxscript let errors of every kind through
        raise ExportRefused(f"torch.onnx.export failed: {_one_line(_root(error))}") from error
    return exported.model  # type: ignore[no-any-return]


def _decomposed(program: Program, missing: list[MissingTranslation]) -> Program | None:
    """The program with the operators at fault written in simpler ones, where torch knows how to; else None.

    (The translation of scaled_dot_product_attention takes four dimensions only, its decomposition any number.)
    """
    names = {m.op for m in missing}
    known: Any = torch.export.default_decompositions()
    table = {op: how for op, how in known.items() if str(op) in names}
    if not table:
        return None
    return program.derived(program.exported.run_decompositions(table), program.interface)


def _refusal(program: Program, target: Target, error: BaseException) -> ExportRefused:
    missing, nodes = _missing(program, target)
    nodes = {n.name: n for n in program.calls()} | nodes
    if missing:
        names = ", ".join(sorted({m.op for m in missing}))
        return ExportRefused(f"torch has no ONNX translation for {names}", missing)
    reason = _one_line(_root(error))
    node = next(filter(None, (_named_in(str(e), nodes) for e in _chain(error))), None)
    if node is None:
        return ExportRefused(f"torch.onnx.export failed: {reason}")
    at = MissingTranslation(_operator(node), node.name, _place(node), reason)
    return ExportRefused(f"the ONNX translation of {at.op} failed: {reason}", [at])


def _named_in(message: str, nodes: Mapping[str, fx.Node]) -> fx.Node | None:
    """The node that a message of the exporter names, or the first that calls the operator that it names."""
    if (named := _FAILED_NODE.search(message)) is not None:
        return nodes.get(named[1])
    if (named := _FAILED_OP.search(message)) is not None:
        return next((n for n in nodes.values() if str(n.target) == f"{named[1]}.{named[2]}"), None)
    return None


def _missing(program: Program, target: Target) -> tuple[list[MissingTranslation], dict[str, fx.Node]]:
    """All nodes without a translation, and all nodes by name, after the exporter's own decompositions.

    The exporter stops at the first such node, so its registry is asked for each one (torch 2.9 to 2.13,
    torch/onnx/_internal/exporter/_core.py and _dispatching.py). The modules are private: where they are not what
    they were, nothing is found, and the exporter's own error stands.
    """
    try:
        from torch.onnx._internal.exporter import _constants, _core, _dispatching, _registration

        registry = _registration.ONNXRegistry.from_torchlib(opset_version=max(target.opset, _constants.TORCHLIB_OPSET))
        for op, translation in translations(target).items():
            registry.register_op(op, translation)
        decomposed = _core._prepare_exported_program_for_export(program.exported, registry=registry)
        nodes = list(_nodes(decomposed.graph_module))
        untranslated = [
            MissingTranslation(_operator(n), n.name, _place(n), _why_untranslated(n))
            for n in nodes
            if _is_dispatched(n) and n.target not in EXTRA and _dispatching.dispatch(n, registry)[0] is None
        ]
    except Exception:  # private modules of another torch: any error means that they cannot be asked
        return [], {}
    return untranslated, {n.name: n for n in nodes}


def _why_untranslated(node: fx.Node) -> str:
    complex_inputs = any(map(_is_complex, node.all_input_nodes))
    return f"no ONNX translation is registered for it{' on complex tensors' if complex_inputs else ''}"


def _nodes(module: fx.GraphModule) -> Iterator[fx.Node]:
    for part in module.modules():
        if isinstance(part, fx.GraphModule):
            yield from part.graph.nodes


def _is_dispatched(node: fx.Node) -> bool:
    """Whether the exporter looks the node up in its registry."""
    if node.op != "call_function" or str(node.target).startswith("onnx."):
        return False
    return "getitem" not in getattr(node.target, "__name__", "")


def _operator(node: fx.Node) -> str:
    """`aten.lgamma.default`; an operator with side effects is named instead of torch's wrapper around it."""
    if str(node.target) == "with_effects" and len(node.args) > 1:
        return str(node.args[1])
    return str(node.target)


def _place(node: fx.Node) -> Place | None:
    return place_in_trace(node.meta.get("stack_trace"))


def _chain(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__


def _root(error: BaseException) -> BaseException:
    return list(_chain(error))[-1]


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def _refuse_complex(program: Program) -> None:
    inputs = (n for n in program.graph.find_nodes(op="placeholder") if program.value(n) is None and _is_complex(n))
    results = filter(_is_complex, program.graph.output_node().all_input_nodes)
    ends = (
        (program.interface.inputs, (user for n in inputs for user in n.users)),
        (program.interface.outputs, results),
    )
    for slots, nodes in ends:
        slot = next((s for s in slots if s.dtype.startswith("complex")), None)
        if slot is not None:
            raise ExportRefused(
                f"{slot.name} is {slot.dtype}, and no ONNX runtime takes or returns complex tensors; "
                "hand over torch.view_as_real of it",
                place=next(filter(None, map(program.place, nodes)), None),
            )


def _is_complex(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_complex()


def _check_interface(model: ir.Model, program: Program) -> None:
    for kind, values, slots in (
        ("input", model.graph.inputs, program.inputs),
        ("output", model.graph.outputs, program.outputs),
    ):
        if len(values) != len(slots):
            raise ExportRefused(
                f"the exported model has {len(values)} {kind}s, the policy has {len(slots)} ({_names(slots)})"
            )
        for value, slot in zip(values, slots):
            dtype = value.dtype.name.lower().replace("double", "float64") if value.dtype is not None else None
            if dtype is not None and _onnx_dtype(slot.dtype) != dtype:
                raise ExportRefused(f"{kind} {slot.name} is {slot.dtype} in the policy and {dtype} in the model")


def _onnx_dtype(dtype: str) -> str:
    return {"float32": "float", "float64": "float64"}.get(dtype, dtype)


def _names(slots: Iterable[Slot]) -> str:
    return ", ".join(s.name for s in slots) or "none"


def _name_dimensions(model: ir.Model, inputs: Iterable[Slot]) -> None:
    """Replace torch's symbols (`s77`) by the interface's names, in every shape and inside expressions (`2*s77`)."""
    names: dict[str, str] = {}
    for value, slot in zip(model.graph.inputs, inputs):
        for dimension, wanted in zip(value.shape or (), slot.shape):
            symbol = dimension.value if isinstance(dimension, ir.SymbolicDim) else None
            if isinstance(wanted, str) and symbol:
                names.setdefault(symbol, wanted)
    if not names:
        return
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b")
    for value in _values(model):
        if value.shape is None or value.shape.frozen:
            continue
        for axis, dimension in enumerate(value.shape):
            if isinstance(dimension, ir.SymbolicDim) and dimension.value:
                value.shape[axis] = pattern.sub(lambda m: names[m.group(1)], dimension.value)


def _name_values(model: ir.Model, program: Program) -> None:
    """Give inputs and outputs their names; whatever else has one of those names gets another."""
    graph = model.graph
    wanted = [*zip(graph.inputs, program.inputs), *_own_outputs(graph, program.outputs)]
    ends = {id(value) for value, _ in wanted}
    values = list(_values(model))
    taken = {v.name for v in values} | {s.name for _, s in wanted}
    reserved = {s.name for _, s in wanted}
    for value in values:
        if value.name in reserved and id(value) not in ends:
            value.name = next(n for i in range(1, len(taken) + 2) if (n := f"{value.name}_{i}") not in taken)
            taken.add(value.name)
    for value, slot in wanted:
        value.name = slot.name


def _own_outputs(graph: ir.Graph, slots: Iterable[Slot]) -> list[tuple[ir.Value, Slot]]:
    """Each output as a value of its own: where it is an input, a constant or another output, behind an Identity."""
    seen: set[int] = set()
    named: list[tuple[ir.Value, Slot]] = []
    for index, (value, slot) in enumerate(zip(list(graph.outputs), slots)):
        own = value
        if value.producer() is None or id(value) in seen:
            node = ir.node("Identity", [value], name=f"node_output_{index}")
            own = node.outputs[0]
            own.name, own.type, own.shape = f"output_{index}_alias", value.type, value.shape
            graph.append(node)
            graph.outputs[index] = own
        seen.add(id(own))
        named.append((own, slot))
    return named


def _values(model: ir.Model) -> Iterator[ir.Value]:
    """Every value of the main graph and its subgraphs, once."""
    seen: set[int] = set()
    for graph in model.graphs():
        for value in (*graph.inputs, *graph.initializers.values(), *(o for node in graph for o in node.outputs)):
            if id(value) not in seen:
                seen.add(id(value))
                yield value
