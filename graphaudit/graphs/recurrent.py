"""Recurrent layers stay one operator while torch traces, so that the number of their steps may vary.

torch computes the shapes of `aten.lstm.input` and `aten.gru.input` by unrolling them over the steps of the example
(torch/_decomp/decompositions.py), which makes that number a constant. Their shapes follow from their arguments alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

# Those that torch.onnx translates whole; it knows the others in no other form than unrolled.
_LAYERS = (torch.ops.aten.lstm.input, torch.ops.aten.gru.input)
_KEY = torch._C.DispatchKey.CompositeImplicitAutograd


@contextmanager
def whole_recurrent_layers() -> Iterator[None]:
    """While it lasts, lstm and gru on fake tensors whose steps vary are not unrolled. Not for values."""
    kept = {layer: (layer.py_kernels[_KEY], decomposition_table[layer]) for layer in _LAYERS}
    for layer, (kernel, decomposition) in kept.items():
        _set(layer, _shaped(kernel), _shaped(decomposition))
    try:
        yield
    finally:
        for layer, unrolled in kept.items():
            _set(layer, *unrolled)


def _set(layer: Any, kernel: Any, decomposition: Any) -> None:
    layer.py_kernels[_KEY] = kernel  # what a trace asks for, as torch.export does in torch/export/_patches.py
    layer._dispatch_cache.clear()
    decomposition_table[layer] = decomposition  # what fake tensors ask for


def _shaped(unrolled: Any) -> Any:
    def layer(x: Tensor, hx: Any, params: Sequence[Tensor], *rest: Any) -> tuple[Tensor, ...]:
        *_, bidirectional, batch_first = rest
        steps: Any = x.shape[1 if batch_first else 0]  # an int, or a size that varies
        if isinstance(steps, int):
            return unrolled(x, hx, params, *rest)  # type: ignore[no-any-return]
        states = (hx,) if isinstance(hx, Tensor) else tuple(hx)
        width = states[0].shape[-1] * (2 if bidirectional else 1)
        return (x.new_empty((*x.shape[:2], width)), *(state.new_empty(state.shape) for state in states))

    return layer
