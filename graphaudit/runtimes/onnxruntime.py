"""ONNX Runtime on the CPU, as a runner and as the sessions behind a bundle. Imports no torch at its top."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort

from graphaudit.graphs.onnx_files import WEIGHTS_LIMIT, weight_bytes, write_model

if TYPE_CHECKING:
    import torch

    from graphaudit.graphs.onnx_model import OnnxModel
    from graphaudit.runtimes import Runner

# The numpy dtype behind each tensor type of ONNX Runtime (onnxruntime/core/framework/data_types.cc).
DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bool)": "bool",
    **{f"tensor({sign}int{bits})": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_SILENT = 4  # log only fatal errors


class RuntimeRefused(Exception):
    """ONNX Runtime does not load or run the model. `reason` is one line of its own words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def session(model: OnnxModel | Path, threads: int = 1, optimise: bool = True) -> ort.InferenceSession:
    """A session on the CPU. `threads` 0 leaves the choice to ONNX Runtime. Raises RuntimeRefused."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = _SILENT
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if isinstance(model, Path):
        return _open(str(model), options)
    if weight_bytes(model.proto) <= WEIGHTS_LIMIT:
        return _open(model.proto.SerializeToString(), options)
    with tempfile.TemporaryDirectory(prefix="graphaudit-") as folder:
        return _open(str(write_model(model.proto, Path(folder) / "model.onnx", WEIGHTS_LIMIT)[0]), options)


def runner(model: OnnxModel, threads: int = 1) -> Runner:
    """A function from the model's arguments to its results and guards, as flat lists of CPU tensors in its order.

    Arguments must have the model's dtypes; they may be of any layout. Noise is drawn anew in each call, from the
    generators that are running, or follows the arguments where it is given. Raises RuntimeRefused, also when run.
    """
    complete = complete_runner(model, threads)
    from graphaudit.graphs.noise import run_with_noise

    def run(values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if len(values) > len(model.arguments):
            results = complete(values)
            return results[: len(results) - len(model.drawn)]

        def with_noise(noise: list[torch.Tensor]) -> list[torch.Tensor]:
            return complete([*values, *noise])

        return run_with_noise(model.noise, values, model.arguments, model.drawn, with_noise)[1]

    return run


def complete_runner(model: OnnxModel, threads: int = 1) -> Runner:
    """As `runner`, from the model's arguments and its noise to all of its outputs."""
    import torch

    opened = session(model, threads)
    inputs = opened.get_inputs()
    for value in (*inputs, *opened.get_outputs()):
        if value.type not in DTYPES:
            raise RuntimeRefused(f"{value.name} is a {value.type}, which no NumPy array can hold")

    def run(values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if len(values) != len(inputs):
            raise RuntimeRefused(f"the model takes {len(inputs)} inputs and was given {len(values)}")
        feeds = {i.name: _array(value) for i, value in zip(inputs, values)}
        return [torch.from_numpy(result) for result in run_session(opened, feeds)]

    return run


def run_session(
    opened: ort.InferenceSession, feeds: Mapping[str, np.ndarray[Any, Any]], outputs: list[str] | None = None
) -> list[np.ndarray[Any, Any]]:
    """These outputs, or all, in the model's order. Raises RuntimeRefused."""
    try:
        return [np.asarray(result) for result in opened.run(outputs, feeds)]
    except Exception as error:  # ONNX Runtime's exceptions have no base of their own
        raise RuntimeRefused(reason(error)) from error


def _open(source: str | bytes, options: ort.SessionOptions) -> ort.InferenceSession:
    try:
        return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no base of their own
        raise RuntimeRefused(reason(error)) from error


def _array(value: torch.Tensor) -> np.ndarray[Any, Any]:
    # resolve_conj/resolve_neg: lazily conjugated or negated views have no NumPy form.
    return np.ascontiguousarray(value.detach().cpu().resolve_conj().resolve_neg().numpy()).reshape(tuple(value.shape))


def reason(error: BaseException) -> str:
    """One line of ONNX Runtime's own words."""
    text = " ".join(str(error).split())
    return _PREFIX.sub("", text)[:500] or type(error).__name__
