"""The read-only view of a captured program.

One `Node` for every call in the FX graph and in the subgraphs of its regions. A subgraph's nodes stand before the node
that runs it; inside it, operands are the values of the surrounding graph wherever they are the same on every pass
through it (everything but the carried values of a loop).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx

from graphaudit.graphs.places import place_in_trace
from graphaudit.graphs.program import Program
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.interface import dtype_name

# Names of the subgraphs of a higher-order operator, in the order of its arguments.
_REGIONS = {"cond": ("true", "false"), "while_loop": ("cond", "body")}


def view_program(program: Program) -> GraphView:
    """The view of `program`: `inputs` and `outputs` are those of its interface, in order."""
    builder = _Builder(_size_names(program))
    inputs = []
    for node in program.graph.find_nodes(op="placeholder"):
        constant = program.value(node)
        value = builder.add_value(node, read=_reader(constant) if constant is not None else None)
        if constant is None and value is not None:
            inputs.append(value)
    builder.add_calls(program.exported.graph_module)
    user_outputs = set(program.exported.graph_signature.user_outputs)
    results: Sequence[Any] = program.graph.output_node().args[0]  # type: ignore[assignment]
    outputs = [builder.value(r) for r in results if isinstance(r, fx.Node) and r.name in user_outputs]
    return GraphView(tuple(builder.nodes), tuple(inputs), tuple(v for v in outputs if v is not None))


def operator_name(target: Any) -> tuple[str, str]:
    """The `op` and `domain` of a call's target: `("aten.softmax.int", "aten")`, `("torch.cond", "torch")`."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target), target.namespace
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"torch.{target.name()}", "torch"  # type: ignore[no-untyped-call]
    module = getattr(target, "__module__", None) or "builtins"
    domain = module.partition(".")[0].lstrip("_")
    return f"{domain}.{getattr(target, '__name__', type(target).__name__)}", domain


class _Builder:
    def __init__(self, size_names: Mapping[str, str]) -> None:
        self.nodes: list[Node] = []
        self._size_names = size_names
        self._values: dict[fx.Node, Value | tuple[Value | None, ...] | None] = {}

    def value(self, node: fx.Node) -> Value | None:
        """The tensor that `node` stands for, or None."""
        known = self._values.get(node)
        return known if isinstance(known, Value) else None

    def add_value(
        self, node: fx.Node, prefix: str = "", read: Callable[[], np.ndarray[Any, Any]] | None = None
    ) -> Value | None:
        """Give `node` the value or values that its meta describes."""
        result = node.meta.get("val")
        name = prefix + node.name
        if isinstance(result, list | tuple):
            self._values[node] = tuple(self._describe(f"{name}.{i}", r) for i, r in enumerate(result))
        else:
            self._values[node] = self._describe(name, result, read)
        return self.value(node)

    def add_calls(self, module: fx.GraphModule, path: str = "") -> None:
        """Append the calls of `module` in order, subgraphs included."""
        prefix = f"{path}/" if path else ""
        for node in module.graph.nodes:
            if node.op != "call_function":
                continue
            self._add_regions(module, node, prefix)
            self.add_value(node, prefix)
            op, domain = operator_name(node.target)
            inputs, attributes = self._arguments(node)
            self.nodes.append(
                Node(
                    name=prefix + node.name,
                    op=op,
                    domain=domain,
                    inputs=inputs,
                    outputs=self._outputs(node),
                    attributes=attributes,
                    place=place_in_trace(node.meta.get("stack_trace")),
                    graph=path,
                )
            )

    def _add_regions(self, module: fx.GraphModule, node: fx.Node, prefix: str) -> None:
        if not isinstance(node.target, torch._ops.HigherOrderOperator):
            return
        kind = node.target.name()  # type: ignore[no-untyped-call]
        regions = [a for a in node.args if isinstance(a, fx.Node) and a.op == "get_attr"]
        graphs = [(a, g) for a in regions if isinstance(g := getattr(module, str(a.target), None), fx.GraphModule)]
        names = _REGIONS.get(kind, tuple(str(a.target) for a, _ in graphs))
        for name, (_, graph) in zip(names, graphs):
            path = f"{prefix}{node.name}/{name}"
            self._bind(graph, _operands(node), path, looped=1 if kind == "while_loop" else 0)
            self.add_calls(graph, path)

    def _bind(self, graph: fx.GraphModule, operands: Sequence[tuple[Any, int]], path: str, looped: int) -> None:
        """Placeholders of a subgraph take the outer values, except those that a loop carries (the first group)."""
        placeholders = graph.graph.find_nodes(op="placeholder")
        aligned = operands if len(operands) == len(placeholders) else [(None, 0)] * len(placeholders)
        for placeholder, (operand, group) in zip(placeholders, aligned):
            outer = self.value(operand) if isinstance(operand, fx.Node) else None
            if outer is not None and group >= looped:
                self._values[placeholder] = outer
            else:
                self.add_value(placeholder, f"{path}/")

    def _outputs(self, node: fx.Node) -> tuple[Value, ...]:
        known = self._values[node]
        if isinstance(known, tuple):
            return tuple(v for v in known if v is not None)
        return (known,) if known is not None else ()

    def _arguments(self, node: fx.Node) -> tuple[tuple[Value | None, ...], dict[str, Any]]:
        if node.op == "call_function" and operator_name(node.target)[0] == "operator.getitem":
            source, index = node.args
            parts = self._values.get(source) if isinstance(source, fx.Node) else None
            if isinstance(parts, tuple) and isinstance(index, int):
                return (parts[index],), {"index": index}
        inputs: list[Value | None] = []
        attributes: dict[str, Any] = {}
        for name, argument, is_tensor in _bound(node):
            if is_tensor and (argument is None or isinstance(argument, list | tuple)):
                inputs.extend(self._tensors(argument))
            elif isinstance(argument, fx.Node) and self.value(argument) is not None:
                inputs.append(self.value(argument))
            elif isinstance(node.target, torch._ops.HigherOrderOperator) and isinstance(argument, list | tuple):
                inputs.extend(v for v in self._tensors(argument) if v is not None)
            elif not (isinstance(argument, fx.Node) and argument.op == "get_attr"):
                attributes[name] = self._plain(argument)
        return tuple(inputs), attributes

    def _tensors(self, argument: Any) -> Iterator[Value | None]:
        for item in argument if isinstance(argument, list | tuple) else (argument,):
            yield self.value(item) if isinstance(item, fx.Node) else None

    def _plain(self, argument: Any) -> Any:
        """Numbers, strings, None and tuples of them."""
        if isinstance(argument, fx.Node):
            return self._size(argument.meta["val"]) if "val" in argument.meta else argument.name
        if isinstance(argument, list | tuple):
            return tuple(self._plain(a) for a in argument)
        if isinstance(argument, torch.dtype | torch.layout | torch.memory_format):
            return str(argument).removeprefix("torch.")
        return argument if isinstance(argument, bool | int | float | complex | str | None) else str(argument)

    def _describe(self, name: str, result: Any, read: Callable[[], Any] | None = None) -> Value | None:
        if not isinstance(result, torch.Tensor):
            return None
        return Value(name, dtype_name(result.dtype), tuple(self._size(s) for s in result.shape), read)

    def _size(self, size: Any) -> Any:
        if not isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool):
            return size
        expression = str(size.node.expr)
        return self._size_names.get(expression, expression)


def _size_names(program: Program) -> dict[str, str]:
    """Symbols of the graph (`s77`) → the names that the interface gives to these sizes (`batch`)."""
    names: dict[str, str] = {}
    user = set(program.exported.graph_signature.user_inputs)
    placeholders = [n for n in program.graph.find_nodes(op="placeholder") if n.name in user]
    tensors = [n.meta["val"] for n in placeholders if isinstance(n.meta.get("val"), torch.Tensor)]
    for tensor, slot in zip(tensors, program.interface.inputs):
        for size, name in zip(tensor.shape, slot.shape):
            if isinstance(size, torch.SymInt) and isinstance(name, str):
                names.setdefault(str(size.node.expr), name)
    return names


def _operands(node: fx.Node) -> list[tuple[Any, int]]:
    """What the subgraphs of a region read, with the position of its group among the region's tuple arguments."""
    groups = [a for a in node.args if isinstance(a, list | tuple)]
    return [(item, index) for index, group in enumerate(groups) for item in group]


def _bound(node: fx.Node) -> Iterator[tuple[str, Any, bool]]:
    """The arguments of a call in schema order, defaults filled in: name, argument, whether it is tensor typed."""
    if not isinstance(node.target, torch._ops.OpOverload):
        yield from ((f"arg{i}", a, False) for i, a in enumerate(node.args))
        yield from ((name, a, False) for name, a in node.kwargs.items())
        return
    positional = iter(node.args)
    for argument in node.target._schema.arguments:
        default = argument.default_value
        given = (
            node.kwargs.get(argument.name, default)
            if argument.kwarg_only
            else next(positional, node.kwargs.get(argument.name, default))
        )
        yield argument.name, given, "Tensor" in str(argument.type)


def _reader(tensor: torch.Tensor) -> Callable[[], np.ndarray[Any, Any]]:
    def read() -> np.ndarray[Any, Any]:
        detached = tensor.detach().cpu()
        # NumPy has no bfloat16; float32 holds each of its values exactly.
        return (detached.float() if detached.dtype is torch.bfloat16 else detached).numpy()

    return read
