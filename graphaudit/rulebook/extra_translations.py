"""ONNX translations of ATen operators that torch's registry lacks (torch 2.13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch
from onnxscript import opset18
from onnxscript.function_libs.torch_lib.ops.core import aten_sort

aten = torch.ops.aten
op: Any = opset18  # onnxscript types the operators for evaluation, and these functions are traced


def _masked_select(self: Any, mask: Any) -> Any:
    """Both are broadcast; the elements are listed in order."""
    self, mask = op.Expand(self, op.Shape(mask)), op.Expand(mask, op.Shape(self))
    return op.GatherND(self, op.Transpose(op.NonZero(mask), perm=[1, 0]))


def _signbit(self: Any) -> Any:
    """1 / -0.0 is -inf, and below 0."""
    zero = op.CastLike(op.Constant(value_float=0.0), self)
    return op.Less(op.Where(op.Equal(self, zero), op.Reciprocal(self), self), zero)


def _as_strided_scatter(
    self: Any, src: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """The positions in memory of a contiguous tensor are known where its shape is."""
    count = int(torch.tensor([int(d) for d in self.shape]).prod())
    positions = torch.as_strided(torch.arange(count), tuple(size), tuple(stride), storage_offset or 0).flatten()
    flat = op.Constant(value_ints=[-1])
    written = op.ScatterElements(
        op.Reshape(self, flat), op.Constant(value=ir.tensor(positions.numpy())), op.Reshape(src, flat), axis=0
    )
    return op.Reshape(written, op.Shape(self))


def _rrelu(self: Any, noise: Any, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, **_: Any) -> Any:
    """In eval mode the slope is the middle of its range."""
    if training:
        raise NotImplementedError("rrelu draws its slopes in training mode")
    return op.LeakyRelu(self, alpha=(lower + upper) / 2), noise


# TopK puts the lower index first among equal values, as a stable sort does:
# https://onnx.ai/onnx/operators/onnx__TopK.html
EXTRA: dict[Any, Any] = {
    aten.sort.stable: aten_sort,
    aten.masked_select.default: _masked_select,
    aten.signbit.default: _signbit,
    torch.ops.prims.signbit.default: _signbit,
    aten.as_strided_scatter.default: _as_strided_scatter,
    torch.ops.prims.as_strided_scatter.default: _as_strided_scatter,
    aten.rrelu_with_noise_functional.default: _rrelu,
}
