"""Tensors that no input has a part in: weights, and what is computed from weights alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

_FACTORIES = ("zeros", "ones", "full", "arange", "linspace", "eye", "empty", "tensor", "as_tensor", "scalar_tensor")
_DRAWS = ("rand", "normal", "bernoulli", "multinomial", "poisson", "dropout", "binomial", "gumbel", "uniform_", "expon")


class Constants:
    """Follows one run. What it has not seen being made is taken for the inputs' own."""

    def __init__(self, was_read: Callable[[Any], bool]) -> None:
        self._was_read = was_read  # whether a number was read out of a tensor
        self._held: dict[int, torch.Tensor] = {}
        self._written: set[int] = set()  # storages

    def start(self, module: nn.Module) -> None:
        """A run of `module` begins."""
        self._held.clear()
        self._written.clear()
        for part in module.modules():
            own = (vars(part), part._parameters, part._buffers)
            self._hold([v for table in own for v in table.values() if isinstance(v, torch.Tensor)])

    def holds(self, tensor: Any) -> bool:
        """Whether no input has a part in the tensor."""
        return id(tensor) in self._held and _storage(tensor) not in self._written

    def follow(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """One call of torch."""
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        constant = bool(tensors) or name in _FACTORIES
        constant &= all(map(self.holds, tensors)) and not any(map(self._was_read, leaves))
        constant &= not any(part in name for part in _DRAWS)
        if _writes(name, kwargs):
            if not constant:
                written = [*tensors[:1], *pytree.tree_leaves(kwargs.get("out"))]
                self._written.update(_storage(t) for t in written if isinstance(t, torch.Tensor))
        elif constant:
            self._hold([leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)])

    def _hold(self, tensors: list[torch.Tensor]) -> None:
        self._held.update((id(tensor), tensor) for tensor in tensors)


def _writes(name: str, kwargs: Any) -> bool:
    plain = name.endswith("_") and not name.startswith("__")
    return plain or name == "__setitem__" or (name.startswith("__i") and name != "__invert__") or "out" in kwargs


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata) if tensor.layout is torch.strided else id(tensor)
