"""Eager with ties broken as ONNX breaks them.

torch.topk and torch.sort leave open which of several equal elements comes first. ONNX's TopK puts the lower index
first (https://onnx.ai/onnx/operators/onnx__TopK.html), so that answer is as good as the one that torch happens to give.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class LowestFirst(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, topk and sort put the lower index first among equal elements. `changed` says if that ever mattered."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.changed = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        stable = _STABLE.get(func)
        if stable is None:
            return result
        other = stable(*args, **(kwargs or {}))
        self.changed |= not torch.equal(result[1], other[1])
        return other


def _sort(x: torch.Tensor, dim: int = -1, descending: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = torch.ops.aten.sort.stable(x, stable=True, dim=dim, descending=descending)
    return values, indices


def _topk(
    x: torch.Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,  # noqa: ARG001
) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = _sort(x, dim, largest)
    if not x.dim():
        return values, indices
    return values.narrow(dim, 0, k), indices.narrow(dim, 0, k)


_STABLE: dict[Any, Any] = {torch.ops.aten.sort.default: _sort, torch.ops.aten.topk.default: _topk}
