"""One read-only view of FX programs and ONNX models: a networkx graph of nodes with typed values and source lines.

Checks and the rulebook read this view alone, so that a rule about `float64` or about distance to an output is written
once for both kinds of graph. `GraphView.digraph` is a `networkx.DiGraph` over node names (edge u → v: v reads a value
of u), for everything networkx can answer: ancestors, islands, paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np

from graphaudit.findings import Place

_DATA_SIZE = re.compile(r"\bu\d+\b")


@dataclass(frozen=True)
class Value:
    """A tensor in the graph. `dtype` is numpy's name (`float32`; None: unknown); a size is an int, or a name."""

    name: str
    dtype: str | None = None
    shape: tuple[int | str, ...] | None = None
    read: Callable[[], np.ndarray[Any, Any]] | None = field(default=None, compare=False, repr=False)

    @property
    def is_constant(self) -> bool:
        """Whether the tensor is a parameter, buffer, initializer or constant."""
        return self.read is not None

    @property
    def array(self) -> np.ndarray[Any, Any] | None:
        """The constant's value, or None."""
        return self.read() if self.read else None

    @property
    def is_data_sized(self) -> bool:
        """Whether values, not shapes, decide one of its sizes: torch.export calls those u0, u1 and so on."""
        return any(isinstance(size, str) and _DATA_SIZE.search(size) for size in self.shape or ())


@dataclass(frozen=True)
class Node:
    """One operation. In an FX view `op` is like `aten.softmax.int` and `domain` is `aten`; in an ONNX view `Softmax`
    and `` (the standard domain), with `opset` the version of that domain.

    `inputs` are the tensor inputs in order (None: an omitted optional input); `attributes` hold everything else: ONNX
    attributes, or the non-tensor arguments of an FX node by their names in the operator's schema.
    `graph` is empty for the main graph, or the path of the subgraph (`loop_1/body`).
    """

    name: str
    op: str
    domain: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    place: Place | None = None
    opset: int | None = None
    graph: str = ""


@dataclass(frozen=True)
class GraphView:
    """All nodes of a graph and its subgraphs, in topological order, and how values connect them."""

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    opset: int | None = None
    imports: Mapping[str, int] = field(default_factory=dict)
    functions: tuple[str, ...] = ()

    def select(self, *ops: str) -> Iterator[Node]:
        """Nodes whose `op` is one of `ops`; `aten.exp` also matches its overloads (`aten.exp.default`)."""
        wanted = set(ops)
        for node in self.nodes:
            if node.op in wanted or node.op.rpartition(".")[0] in wanted:
                yield node

    def producer(self, value: Value | None) -> Node | None:
        """The node that computes a value; None for inputs and constants."""
        return self._producers.get(value.name) if value is not None else None

    def consumers(self, value: Value) -> tuple[Node, ...]:
        """The nodes that read a value."""
        return self._consumers.get(value.name, ())

    @cached_property
    def digraph(self) -> nx.DiGraph[str]:
        """Node names; an edge u → v where v reads a value of u. Node data: `node`, the `Node`."""
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from((n.name, {"node": n}) for n in self.nodes)
        for node in self.nodes:
            for value in node.inputs:
                source = self.producer(value)
                if source is not None:
                    graph.add_edge(source.name, node.name)
        return graph

    @cached_property
    def _producers(self) -> dict[str, Node]:
        return {v.name: n for n in self.nodes for v in n.outputs}

    @cached_property
    def _consumers(self) -> dict[str, tuple[Node, ...]]:
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None:
                    found.setdefault(value.name, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}
