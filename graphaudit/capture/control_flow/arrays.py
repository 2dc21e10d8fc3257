"""NumPy on arrays that were tensors: PyTorch's own implementation of NumPy takes over, and the graph goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import _numpy as twin
from torch._numpy._ndarray import asarray, ndarray

Array = ndarray


def array_of(tensor: torch.Tensor, *_: Any, **__: Any) -> Any:
    """`tensor.numpy()`, which shares the tensor's memory."""
    return asarray(tensor)  # type: ignore[no-untyped-call]


def astype(array: Any, dtype: Any, **_: Any) -> Any:
    """`array.astype(dtype)`; PyTorch's twin knows NumPy's dtypes by name."""
    return array.astype(np.dtype(dtype).name)


def tensor_of(array: Any) -> Any:
    """The tensor behind an array; anything else as it is."""
    return array.tensor if isinstance(array, Array) else array


def function_of(function: Any) -> Callable[..., Any] | None:
    """PyTorch's twin of a function of NumPy's, if it has one."""
    module = getattr(function, "__module__", None) or type(function).__module__
    if str(module).split(".")[0] != "numpy":
        return None
    found: Callable[..., Any] | None = getattr(twin, getattr(function, "__name__", ""), None)
    return found
