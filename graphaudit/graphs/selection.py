"""One of two tensors, by a condition."""

from __future__ import annotations

import torch


def where(condition: torch.Tensor, taken: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """`torch.where`; of booleans in logic, because ONNX Runtime's Where has no kernel for them."""
    if taken.dtype is not torch.bool or other.dtype is not torch.bool:
        return torch.where(condition, taken, other)
    return torch.logical_or(torch.logical_and(condition, taken), torch.logical_and(torch.logical_not(condition), other))
