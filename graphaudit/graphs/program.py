"""A captured policy: a functional FX graph of ATen ops, its parameters and buffers lifted to inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    TensorArgument,
)

from graphaudit.findings import Place
from graphaudit.graphs.places import place_in_trace
from graphaudit.interface import Interface, Slot

_LIFTED = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


class Program:
    """A functional FX graph with the interface of the policy it came from.

    `graph` may be edited freely between `copy` and `finish`. Placeholders for parameters, buffers and constants have a
    `value`; the others are the inputs of the interface, in order.
    """

    def __init__(self, exported: ExportedProgram, interface: Interface) -> None:
        self.exported = exported
        self.interface = interface

    @property
    def graph(self) -> fx.Graph:
        """The FX graph; call `finish` after editing it."""
        graph: fx.Graph = self.exported.graph_module.graph
        return graph

    @property
    def mutated(self) -> dict[str, fx.Node]:
        """Buffer, parameter or input names that forward writes to → the node with the new value."""
        kinds = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)
        nodes = self.graph.output_node().args[0]
        specs = self.exported.graph_signature.output_specs
        return {s.target or "": n for s, n in zip(specs, nodes) if s.kind in kinds}  # type: ignore[arg-type]

    def value(self, node: Any) -> torch.Tensor | None:
        """The parameter, buffer or constant behind a placeholder; None for every other node."""
        if not isinstance(node, fx.Node) or node.op != "placeholder":
            return None
        spec = next((s for s in self.exported.graph_signature.input_specs if s.arg.name == node.name), None)
        return self._tensor(spec) if spec is not None and spec.kind in _LIFTED else None

    def add_constant(self, tensor: torch.Tensor, hint: str) -> fx.Node:
        """A new placeholder that holds `tensor` (detached, any shape and dtype); `hint` becomes part of its name."""
        constants = self.exported.constants
        target = next(n for i in range(len(constants) + 1) if (n := f"graphaudit_{hint}_{i}") not in constants)
        specs = self.exported.graph_signature.input_specs
        first_input = next((i for i, s in enumerate(specs) if s.kind not in _LIFTED), len(specs))
        placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]
        anchor = placeholders[first_input] if first_input < len(placeholders) else next(iter(self.graph.nodes))
        with self.graph.inserting_before(anchor):
            node = self.graph.placeholder(f"c_{target}")
        value = tensor.detach()
        fake = next((n.meta["val"].fake_mode for n in placeholders if hasattr(n.meta.get("val"), "fake_mode")), None)
        node.meta["val"] = fake.from_tensor(value, static_shapes=True) if fake else value
        constants[target] = value
        specs.insert(first_input, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), target))
        return node

    def place(self, node: fx.Node) -> Place | None:
        """The user's source line behind a node."""
        return place_in_trace(node.meta.get("stack_trace"))

    def finish(self) -> Program:
        """Drop dead nodes and lifted values that nothing uses, check the graph, recompile it. Returns self."""
        self.graph.eliminate_dead_code(is_impure_node=lambda n: n.op in ("placeholder", "output"))
        specs = self.exported.graph_signature.input_specs
        by_name = {n.name: n for n in self.graph.nodes if n.op == "placeholder"}
        for spec in list(specs):
            node = by_name[spec.arg.name]
            if spec.kind in _LIFTED and not node.users and spec.target not in self.mutated:
                self.graph.erase_node(node)
                specs.remove(spec)
        self._sync_outputs()
        self.graph.lint()
        self.exported.graph_module.recompile()
        return self

    def copy(self) -> Program:
        """An independent graph over the same tensors."""
        exported = copy.copy(self.exported)
        exported._graph_module = copy.deepcopy(self.exported.graph_module)
        _keep_names(self.exported.graph_module, exported._graph_module)
        exported._graph_signature = copy.deepcopy(self.exported.graph_signature)
        exported._constants = dict(self.exported.constants)
        exported._state_dict = dict(self.exported.state_dict)
        return Program(exported, self.interface)

    def with_interface(self, inputs: Sequence[Slot] | None = None, outputs: Sequence[Slot] | None = None) -> Program:
        """The same program under other slot descriptions."""
        changed = replace(
            self.interface,
            inputs=tuple(inputs if inputs is not None else self.interface.inputs),
            outputs=tuple(outputs if outputs is not None else self.interface.outputs),
        )
        return Program(self.exported, changed)

    def runner(self, dtype: torch.dtype | None = None) -> Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]:
        """A function from flat inputs to flat outputs; `dtype` casts the lifted floating-point tensors."""
        signature = self.exported.graph_signature
        module = self.exported.graph_module
        lifted = {s.arg.name: self._cast(self._tensor(s), dtype) for s in signature.input_specs if s.kind in _LIFTED}
        examples = {n.name: n.meta.get("val") for n in self.graph.find_nodes(op="placeholder")}

        def lay_out(spec: InputSpec, tensor: torch.Tensor) -> torch.Tensor:
            # A `view` in the graph holds for the strides it was captured under.
            example = examples.get(spec.arg.name)
            dense = isinstance(example, torch.Tensor) and example.is_contiguous()
            return tensor.contiguous() if dense else tensor

        def run(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
            given = iter(inputs)
            flat = [
                lifted[s.arg.name]
                if s.kind in _LIFTED
                else s.arg.value
                if isinstance(s.arg, ConstantArgument)
                else lay_out(s, next(given))
                for s in signature.input_specs
            ]
            with torch.no_grad():
                results = module(*flat)
            kept = [r for s, r in zip(signature.output_specs, results) if s.kind is OutputKind.USER_OUTPUT]
            return [torch.as_tensor(r) for r in kept if r is not None]

        return run

    def _tensor(self, spec: InputSpec) -> torch.Tensor:
        for store in (self.exported.state_dict, self.exported.constants):
            if spec.target in store:
                tensor: torch.Tensor = store[spec.target]
                return tensor
        raise KeyError(spec.target)

    @staticmethod
    def _cast(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
        return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor

    def _sync_outputs(self) -> None:
        """Names in the signature follow the nodes that passes put in place of others."""
        nodes = self.graph.output_node().args[0]
        for spec, node in zip(self.exported.graph_signature.output_specs, nodes):  # type: ignore[arg-type]
            if isinstance(node, fx.Node) and isinstance(spec.arg, TensorArgument):
                spec.arg = TensorArgument(node.name)


def _keep_names(source: fx.GraphModule, copied: fx.GraphModule) -> None:
    """A copy of an fx graph renames nodes that are called like a Python builtin (`input`); the signature does not."""
    for old, new in zip(source.modules(), copied.modules(), strict=True):
        if isinstance(old, fx.GraphModule) and isinstance(new, fx.GraphModule):
            for node, twin in zip(old.graph.nodes, new.graph.nodes, strict=True):
                twin.name = node.name
            new.recompile()
