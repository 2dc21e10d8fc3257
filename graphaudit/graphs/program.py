"""A captured policy: a functional FX graph of ATen ops, its parameters and buffers lifted to inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from graphaudit.findings import Place
from graphaudit.graphs.generators import generator_behind, name_generators, running
from graphaudit.graphs.held import Held, in_use
from graphaudit.graphs.loop_bounds import Bounds
from graphaudit.graphs.noise import Distribution, Noise, Run, draws, run_with_noise
from graphaudit.graphs.one_sided import draws_on_one_side, one_sided_runner
from graphaudit.graphs.places import place_in_trace
from graphaudit.interface import GuardSlot, Interface, Slot, State, dtype_name

_LIFTED = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_REMOVABLE = (*_LIFTED, InputKind.CUSTOM_OBJ)


class Program:
    """A functional FX graph with the interface of the policy it came from.

    `graph` may be edited freely between `copy` and `finish`. Placeholders for parameters, buffers and constants have a
    `value`; the others are the inputs of the interface, in order, and after them those of `noise`.
    """

    def __init__(
        self,
        exported: ExportedProgram,
        interface: Interface,
        noise: Sequence[Noise] = (),
        bounds: Bounds | None = None,
        held: Sequence[Held] = (),
    ) -> None:
        self.exported = exported
        self.interface = interface
        self.noise = tuple(noise)
        self.bounds = bounds or Bounds()  # of loops that are still in the graph
        self.held = {generator.name: generator for generator in held}  # generators of the policy, by name

    @property
    def inputs(self) -> tuple[Slot, ...]:
        """All inputs of the graph: the arguments, then the noise."""
        return (*self.interface.inputs, *(n.slot for n in self.noise))

    @property
    def outputs(self) -> tuple[Slot, ...]:
        """All outputs of the graph: the results, then the guards, then what says which draws the policy makes."""
        return (*self.interface.outputs, *self.interface.guards, *self.interface.drawn)

    @property
    def held_state(self) -> tuple[State, ...]:
        """The state that the graph holds as buffers which it writes to, so that it is no input and output yet."""
        targets = {s.target for s in self.exported.graph_signature.input_specs if s.kind is InputKind.BUFFER}
        return tuple(s for s in self.interface.state if s.path in targets)

    def hold_state(self, prefix: str) -> Program:
        """Turn the state among inputs and outputs into buffers that the graph writes to; what else the graph holds
        loses the `prefix` of its name. Returns self."""
        self.finish()
        self._rename(prefix)
        state, signature = self.interface.state, self.exported.graph_signature
        inputs = [s for s in signature.input_specs if s.kind is InputKind.USER_INPUT]
        outputs = [s for s in signature.output_specs if s.kind is OutputKind.USER_OUTPUT]
        outputs = outputs[: len(outputs) - len(self.interface.guards) - len(self.interface.drawn)]
        for part, given, left in zip(state, inputs[len(inputs) - len(state) :], outputs[len(outputs) - len(state) :]):
            given.kind, given.target, given.persistent = InputKind.BUFFER, part.path, True
            left.kind, left.target = OutputKind.BUFFER_MUTATION, part.path
            self.exported.state_dict[part.path] = part.initial
        return self

    def _rename(self, prefix: str) -> None:
        signature = self.exported.graph_signature
        for spec in (*signature.input_specs, *signature.output_specs):
            if spec.target is not None:
                spec.target = spec.target.removeprefix(prefix)
        for store in (self.exported.state_dict, self.exported.constants):
            for name in [n for n in store if n.startswith(prefix)]:
                store[name.removeprefix(prefix)] = store.pop(name)

    def lift_state(self) -> Program:
        """Undo `hold_state`. Returns self."""
        paths = {part.path for part in self.held_state}
        signature = self.exported.graph_signature
        for spec in signature.input_specs:
            if spec.kind is InputKind.BUFFER and spec.target in paths:
                del self.exported.state_dict[spec.target]
                spec.kind, spec.target, spec.persistent = InputKind.USER_INPUT, None, None
        for left in signature.output_specs:
            if left.kind is OutputKind.BUFFER_MUTATION and left.target in paths:
                left.kind, left.target = OutputKind.USER_OUTPUT, None
        return self

    @property
    def graph(self) -> fx.Graph:
        """The FX graph; call `finish` after editing it."""
        graph: fx.Graph = self.exported.graph_module.graph
        return graph

    def calls(self) -> Iterator[fx.Node]:
        """The calls of the graph and of the graphs of its regions."""
        for module in self.exported.graph_module.modules():
            if isinstance(module, fx.GraphModule):
                yield from (n for n in module.graph.nodes if n.op == "call_function")

    @property
    def mutated(self) -> dict[str, fx.Node]:
        """Buffer, parameter or input names that forward writes to → the node with the new value."""
        kinds = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)
        nodes = self.graph.output_node().args[0]
        specs = self.exported.graph_signature.output_specs
        return {s.target or "": n for s, n in zip(specs, nodes) if s.kind in kinds}  # type: ignore[arg-type]

    @property
    def parameters_read(self) -> set[str]:
        """The names of the parameters that some node of the graph reads."""
        read = {n.name for n in self.graph.nodes if n.op == "placeholder" and n.users}
        specs = self.exported.graph_signature.input_specs
        return {s.target or "" for s in specs if s.kind is InputKind.PARAMETER and s.arg.name in read}

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

    def add_noise(
        self,
        shape: Sequence[int | torch.SymInt],
        dtype: torch.dtype,
        distribution: Distribution,
        parameters: Mapping[str, int],
        generator: Literal["torch", "python", "numpy-legacy"] | Held = "torch",
        when: str | None = None,
    ) -> fx.Node:
        """A new input after all others, which the caller of the graph draws; see `Noise`.

        Raises ValueError for a dimension that is neither a number nor one of the arguments' named dimensions.
        """
        draw = len(self.noise)
        names = tuple(d if isinstance(d, int) else self._dimension(d) for d in shape)
        placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]
        taken = {n.name for n in self.graph.nodes} | {s.name for s in (*self.inputs, *self.interface.outputs)}
        name = next(n for i in range(len(taken) + 1) if (n := f"noise_{draw}" + "_" * i) not in taken)
        with self.graph.inserting_after(placeholders[-1]):
            node = self.graph.placeholder(name)
        mode = next((n.meta["val"].fake_mode for n in placeholders if hasattr(n.meta.get("val"), "fake_mode")), None)
        with mode or nullcontext():
            node.meta["val"] = torch.empty(tuple(shape), dtype=dtype)
        self.exported.graph_signature.input_specs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(name), None))
        self._append_call(node)
        self.noise = (
            *self.noise,
            Noise(name, dtype_name(dtype), names, distribution, dict(parameters), draw, generator, when),
        )
        return node

    def add_guard(self, node: fx.Node, condition: str, place: Place | None) -> None:
        """A new output after results and guards: a 0-d bool, true where the graph is not the policy; `condition` says
        when."""
        output, specs = self.graph.output_node(), self.exported.graph_signature.output_specs
        position = len(specs) - len(self.interface.drawn)
        results: list[Any] = list(output.args[0])  # type: ignore[arg-type]
        results.insert(position, node)
        output.args = (tuple(results),)
        specs.insert(position, OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None))
        entry, *others = self.exported.module_call_graph
        signature = copy.copy(entry.signature)
        assert signature is not None
        signature.out_spec = pytree.TreeSpec(tuple, None, [signature.out_spec, pytree.treespec_leaf()])
        signature.outputs = [*signature.outputs, TensorArgument(node.name)]
        self.exported._module_call_graph = [replace(entry, signature=signature), *others]
        slot = GuardSlot(f"guard_{len(self.interface.guards)}", "", "bool", (), condition, place=place)
        self.interface = replace(self.interface, guards=(*self.interface.guards, slot))

    def generator(self, node: fx.Node) -> Literal["torch"] | Held | torch.Generator:
        """Whose sequence the placeholder of a generator stands for; see `generator_behind`."""
        return generator_behind(self.exported, self.held, node)

    def hold_generators(self, held: Iterable[Held], name_of: Callable[[Any], str | None]) -> Program:
        """Let the graph know the generators of the policy. Returns self."""
        self.held = {generator.name: generator for generator in held}
        name_generators(self.exported, self.held, name_of)
        return self

    def place(self, node: fx.Node) -> Place | None:
        """The user's source line behind a node."""
        return place_in_trace(node.meta.get("stack_trace"))

    def finish(self) -> Program:
        """Drop dead nodes and lifted values that nothing uses, check the graph, recompile it. Returns self.

        A draw that nothing reads stays: the draws after it would be others without it.
        """
        self.graph.eliminate_dead_code(is_impure_node=lambda n: n.op in ("placeholder", "output") or draws(n))
        specs = self.exported.graph_signature.input_specs
        by_name = {n.name: n for n in self.graph.nodes if n.op == "placeholder"}
        for spec in list(specs):
            node = by_name[spec.arg.name]
            if spec.kind in _REMOVABLE and not node.users and spec.target not in self.mutated:
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
        return self.derived(exported, self.interface)

    def derived(self, exported: ExportedProgram, interface: Interface) -> Program:
        """Another graph with the noise, the bounds and the generators of this one."""
        return Program(exported, interface, self.noise, self.bounds, tuple(self.held.values()))

    def with_interface(self, inputs: Sequence[Slot] | None = None, outputs: Sequence[Slot] | None = None) -> Program:
        """The same program under other slot descriptions."""
        changed = replace(
            self.interface,
            inputs=tuple(inputs if inputs is not None else self.interface.inputs),
            outputs=tuple(outputs if outputs is not None else self.interface.outputs),
        )
        return self.derived(self.exported, changed)

    def runner(self, dtype: torch.dtype | None = None) -> Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]:
        """A function from flat arguments to flat outputs; `dtype` casts the lifted floating-point tensors.

        State is among the arguments and outputs, whether the graph holds it as buffers or not. Noise is drawn anew in
        each call, from PyTorch's global CPU generator.
        """
        specs = self.exported.graph_signature.output_specs
        flatten = self._flattener(dtype)
        module: Any = self.exported.graph_module
        if draws_on_one_side(self.graph):
            module = one_sided_runner(module, len(self.interface.drawn))
        state = {part.path for part in self.held_state}

        def run(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
            def with_noise(noise: list[torch.Tensor]) -> list[torch.Tensor]:
                results = module(*flatten(inputs, noise))
                kept = [r for s, r in zip(specs, results) if s.kind is OutputKind.USER_OUTPUT or s.target in state]
                return [torch.as_tensor(r) for r in kept if r is not None]

            with torch.no_grad(), in_use(self.held.values()):
                return self._with_noise(inputs, with_noise)[1]

        return run

    def values(self, inputs: Sequence[torch.Tensor]) -> dict[str, Any]:
        """What every node of the main graph computes from flat arguments, by name."""
        found: dict[str, Any] = {}

        class Recorder(fx.Interpreter):
            def run_node(self, n: fx.Node) -> Any:
                found[n.name] = super().run_node(n)
                return found[n.name]

        def with_noise(noise: list[torch.Tensor]) -> list[torch.Tensor]:
            results = Recorder(self.exported.graph_module).run(*self._flattener(None)(inputs, noise))
            return [*results]

        with torch.no_grad(), in_use(self.held.values()):
            self._with_noise(inputs, with_noise)
        return found

    def _with_noise(self, inputs: Sequence[torch.Tensor], run: Run) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        return run_with_noise(self.noise, inputs, self.interface.inputs, self.interface.drawn, run)

    def _flattener(
        self, dtype: torch.dtype | None
    ) -> Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], list[Any]]:
        """From flat arguments and noise to the values of all placeholders."""
        signature = self.exported.graph_signature
        held = self.held_state
        lifted = {s.arg.name: self._cast(self._tensor(s), dtype) for s in signature.input_specs if s.kind in _LIFTED}
        examples = {n.name: n.meta.get("val") for n in self.graph.find_nodes(op="placeholder")}

        def lay_out(spec: InputSpec, tensor: torch.Tensor) -> torch.Tensor:
            # A `view` in the graph holds for the strides it was captured under.
            example = examples.get(spec.arg.name)
            dense = isinstance(example, torch.Tensor) and example.is_contiguous()
            return tensor.contiguous() if dense else tensor

        def flatten(inputs: Sequence[torch.Tensor], noise: Sequence[torch.Tensor]) -> list[Any]:
            arguments = inputs[: len(inputs) - len(held)]
            state = dict(zip((part.path for part in held), inputs[len(arguments) :]))
            given = iter([*arguments, *noise])
            return [
                lay_out(s, state[s.target])
                if s.target in state
                else lifted[s.arg.name]
                if s.kind in _LIFTED
                else running(self.exported, self.held, s)
                if s.kind is InputKind.CUSTOM_OBJ
                else s.arg.value
                if isinstance(s.arg, ConstantArgument)
                else lay_out(s, next(given))
                for s in signature.input_specs
            ]

        return flatten

    def _append_call(self, placeholder: fx.Node) -> None:
        """Let the exported program's own signature and example take one more keyword, which its retracing asks for."""
        name, fake = placeholder.name, placeholder.meta["val"]
        entry, *others = self.exported.module_call_graph
        signature = copy.copy(entry.signature)
        assert signature is not None
        args, kwargs = signature.in_spec.children()
        keyword = pytree.TreeSpec(dict, [*kwargs.context, name], [*kwargs.children(), pytree.treespec_leaf()])
        signature.in_spec = pytree.TreeSpec(tuple, None, [args, keyword])
        signature.inputs = [*signature.inputs, TensorArgument(name)]
        if signature.forward_arg_names is not None:
            signature.forward_arg_names = [*signature.forward_arg_names, name]
        if self.exported.example_inputs is not None:
            given, named = self.exported.example_inputs
            sizes = [d if isinstance(d, int) else d.node.hint for d in fake.shape]
            self.exported._example_inputs = (given, {**named, name: torch.zeros(sizes, dtype=fake.dtype)})
        self.exported._module_call_graph = [replace(entry, signature=signature), *others]

    def _dimension(self, size: torch.SymInt) -> str:
        """The interface's name of a symbolic size."""
        specs = [s for s in self.exported.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
        examples = {n.name: n.meta.get("val") for n in self.graph.find_nodes(op="placeholder")}
        for slot, spec in zip(self.interface.inputs, (s for s in specs if isinstance(s.arg, TensorArgument))):
            for name, known in zip(slot.shape, getattr(examples.get(spec.arg.name), "shape", ())):
                if isinstance(name, str) and str(known) == str(size):
                    return name
        raise ValueError(f"a dimension of size {size} is none of the arguments' own")

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
