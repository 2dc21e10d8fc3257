"""Formulas of backward operators that PyTorch's table of decompositions leaves out, or that overflow there.

Source: derivatives.yaml of PyTorch 2.13 (tools/autograd), and the CPU kernels that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def _softplus_backward(grad: Tensor, x: Tensor, beta: float, threshold: float) -> Tensor:
    """The slope is sigmoid(βx); PyTorch's own exp(βx) / (exp(βx) + 1) is ∞/∞ where it is not selected."""
    scaled = x * beta
    return torch.where(scaled > threshold, grad, grad * torch.sigmoid(scaled))


def _avg_pool2d_backward(
    grad: Tensor,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """Each entry of the gradient, shared out over its window: a transposed convolution of every channel by itself."""
    if ceil_mode or (any(padding) and not count_include_pad and divisor_override is None) or x.dim() != 4:
        return NotImplemented  # type: ignore[no-any-return]  # windows of different sizes
    kernel, before, channels = _pair(kernel_size), _pair(padding), x.shape[1]
    steps = _pair(stride or kernel_size)
    weight = grad.new_full((channels, 1, *kernel), 1 / (divisor_override or kernel[0] * kernel[1]))
    sizes = zip(x.shape[2:], grad.shape[2:], steps, before, kernel)
    rest = [size - ((out - 1) * step - 2 * pad + width) for size, out, step, pad, width in sizes]
    return torch.nn.functional.conv_transpose2d(grad, weight, None, steps, before, rest, channels)


def _pair(sizes: Sequence[int]) -> list[int]:
    return list(sizes) if len(sizes) == 2 else [sizes[0], sizes[0]]


FORMULAS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.softplus_backward.default: _softplus_backward,
    torch.ops.aten.avg_pool2d_backward.default: _avg_pool2d_backward,
}
