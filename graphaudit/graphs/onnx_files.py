"""Writing ONNX models: one file, or two where the weights do not fit into one protobuf message (2 GB)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

# Protobuf messages end at 2 GiB (https://protobuf.dev/programming-guides/proto-limits/); the graph needs room beside
# the weights.
WEIGHTS_LIMIT = 2**31 - 2**27
_EXTERNAL_FROM = 1024  # bytes; smaller tensors (shapes, scalars) stay in the model file


def weight_bytes(proto: onnx.ModelProto) -> int:
    """Bytes in the initializers of the main graph. (`ByteSize` raises above 2 GiB.)"""
    return sum(len(t.raw_data) for t in proto.graph.initializer)


def write_model(proto: onnx.ModelProto, path: Path, limit: int = WEIGHTS_LIMIT) -> list[Path]:
    """Write `proto` to `path`; above `limit` bytes of weights these go to `<path>.data`. Returns the files written.

    The same proto gives the same bytes. Raises OSError.
    """
    if weight_bytes(proto) <= limit:
        path.write_bytes(proto.SerializeToString(deterministic=True))
        return [path]
    import onnx_ir as ir

    data = path.with_name(path.name + ".data")
    ir.save(ir.from_proto(proto), path, external_data=data.name, size_threshold_bytes=_EXTERNAL_FROM)
    return [path, data]
