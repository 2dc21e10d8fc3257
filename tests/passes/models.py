"""Small ONNX models for the tests of ONNX passes, written as text (https://onnx.ai/onnx/repo-docs/Syntax.html)."""

from __future__ import annotations

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from graphaudit.findings import Place
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.runtimes.onnxruntime import runner

AWKWARD = {
    "zero": np.zeros((2, 3)),
    "negative": -np.ones((2, 3)),
    "huge": np.full((2, 3), 3e38),
    "nan": np.full((2, 3), np.nan),
    "infinity": np.full((2, 3), -np.inf),
    "batch 1": np.linspace(-2, 2, 3).reshape(1, 3),
    "empty": np.zeros((0, 3)),
}


def parse(
    text: str, opset: int = 18, imports: str = "", places: dict[str, int] | None = None, **constants: NDArray
) -> OnnxModel:
    """A checked model; `constants` become initializers, `places` maps values to lines of `policy.py`."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}{imports}]> {text}')
    for name, value in constants.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    return OnnxModel(model, {name: Place("policy.py", line) for name, line in (places or {}).items()})


def ops(model: OnnxModel) -> list[str]:
    """Operators of the main graph, in order."""
    return [n.op_type for n in model.proto.graph.node]


def outputs(model: OnnxModel, *values: NDArray) -> list[torch.Tensor]:
    """What ONNX Runtime makes of float32 inputs."""
    return runner(model)([torch.from_numpy(np.asarray(v, np.float32)) for v in values])


def interface(model: OnnxModel) -> tuple[list[bytes], list[bytes]]:
    """Inputs and outputs with all they declare, for comparison."""
    graph = model.proto.graph
    return [i.SerializeToString() for i in graph.input], [o.SerializeToString() for o in graph.output]
