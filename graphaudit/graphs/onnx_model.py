"""An ONNX model with the user's source line behind each of its values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import onnx

from graphaudit.findings import Place
from graphaudit.graphs.noise import Noise
from graphaudit.graphs.onnx_nodes import all_nodes, reads, subgraphs
from graphaudit.graphs.places import place_in_trace
from graphaudit.interface import GuardSlot, Slot

# The exporter's metadata keys (torch 2.9 to 2.13, torch/onnx/_internal/exporter/_core.py).
STACK_TRACE_KEY = "pkg.torch.onnx.stack_trace"
_FX_NODE_KEY = "pkg.torch.onnx.fx_node"  # `%relu : [num_users=1] = call_function[…`


@dataclass
class OnnxModel:
    """`proto` may be edited in place by a pass that was given a `copy`.

    ONNX clean-up tools drop node metadata but keep value names, so `places` maps value names to source lines. The last
    inputs are those of `noise`; `arguments` are the slots of those before it. The last outputs are `guards`, then
    `drawn`.
    `computes_in` is the dtype in which a part is computed where the policy computes in a wider one; empty: none is.
    `origins` maps value names to the nodes of the program that they were translated from.
    """

    proto: onnx.ModelProto
    places: dict[str, Place] = field(default_factory=dict)
    name: str = "model"
    arguments: tuple[Slot, ...] = ()
    noise: tuple[Noise, ...] = ()
    guards: tuple[GuardSlot, ...] = ()
    drawn: tuple[Slot, ...] = ()
    computes_in: str = ""
    origins: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_proto(cls, proto: onnx.ModelProto, name: str = "model") -> OnnxModel:
        """Read the source lines out of the exporter's metadata; `name` is how reports call the model."""
        places: dict[str, Place] = {}
        origins: dict[str, str] = {}
        for node in all_nodes(proto.graph):
            metadata = {p.key: p.value for p in node.metadata_props}
            place = place_in_trace(metadata.get(STACK_TRACE_KEY))
            if place is not None:
                places.update((name, place) for name in node.output if name)
            origin = metadata.get(_FX_NODE_KEY, "").partition(" ")[0].removeprefix("%")
            origins.update((name, origin) for name in node.output if name and origin)
        return cls(proto, places, name, origins=origins)

    @property
    def opset(self) -> int:
        """The version of the ai.onnx domain; 0 if the model imports none."""
        return max((i.version for i in self.proto.opset_import if i.domain in ("", "ai.onnx")), default=0)

    def place(self, node: onnx.NodeProto) -> Place | None:
        """The user's source line behind a node."""
        return next((self.places[name] for name in node.output if name in self.places), None)

    def inherit_places(self) -> None:
        """Give nodes without a source line that of the first node that reads what they make, else that of one that
        they read; in a branch or loop, else that of its owner."""
        self._inherit(self.proto.graph, None)

    def _inherit(self, graph: onnx.GraphProto, owner: Place | None) -> None:
        wanted: dict[str, Place] = {}
        for node in reversed(graph.node):
            place = self._placed(node, (wanted.get(name) for name in node.output))
            if place is not None:
                wanted.update((name, place) for name in reads(node))
        for node in graph.node:
            place = self._placed(node, [*(self.places.get(name) for name in reads(node)), owner])
            for inner in subgraphs(node):
                self._inherit(inner, place)

    def _placed(self, node: onnx.NodeProto, candidates: Iterable[Place | None]) -> Place | None:
        """The line of a node, which is the first of `candidates` where it has none yet."""
        place = self.place(node) or next(filter(None, candidates), None)
        if place is not None:
            self.places.update((name, place) for name in node.output if name)
        return place

    def copy(self) -> OnnxModel:
        """An independent copy."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        return replace(self, proto=proto, places=dict(self.places))
