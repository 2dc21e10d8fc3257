"""An ONNX model with the user's source line behind each of its values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import onnx

from graphaudit.findings import Place
from graphaudit.graphs.noise import Noise
from graphaudit.graphs.places import place_in_trace
from graphaudit.interface import GuardSlot, Slot

# The exporter's metadata key (torch 2.9 to 2.13, torch/onnx/_internal/exporter/_core.py).
STACK_TRACE_KEY = "pkg.torch.onnx.stack_trace"


@dataclass
class OnnxModel:
    """`proto` may be edited in place by a pass that was given a `copy`.

    ONNX clean-up tools drop node metadata but keep value names, so `places` maps value names to source lines. The last
    inputs are those of `noise`; `arguments` are the slots of those before it. The last outputs are `guards`.
    """

    proto: onnx.ModelProto
    places: dict[str, Place] = field(default_factory=dict)
    name: str = "model"
    arguments: tuple[Slot, ...] = ()
    noise: tuple[Noise, ...] = ()
    guards: tuple[GuardSlot, ...] = ()

    @classmethod
    def from_proto(cls, proto: onnx.ModelProto, name: str = "model") -> OnnxModel:
        """Read the source lines out of the exporter's metadata; `name` is how reports call the model."""
        places: dict[str, Place] = {}
        graphs = [proto.graph]
        while graphs:
            for node in graphs.pop().node:
                trace = next((p.value for p in node.metadata_props if p.key == STACK_TRACE_KEY), None)
                place = place_in_trace(trace)
                if place is not None:
                    places.update((name, place) for name in node.output)
                graphs.extend(a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH)
        return cls(proto, places, name)

    @property
    def opset(self) -> int:
        """The version of the ai.onnx domain; 0 if the model imports none."""
        return max((i.version for i in self.proto.opset_import if i.domain in ("", "ai.onnx")), default=0)

    def place(self, node: onnx.NodeProto) -> Place | None:
        """The user's source line behind a node."""
        return next((self.places[name] for name in node.output if name in self.places), None)

    def copy(self) -> OnnxModel:
        """An independent copy."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        return replace(self, proto=proto, places=dict(self.places))
