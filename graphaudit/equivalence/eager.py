"""Runs the user's module, or its float64 copy, as a reference: same seed, same initial state, flat outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from graphaudit.interface import Interface
from graphaudit.policy.isolation import Working, clone_tensors


class Eager:
    """A working copy of the module that returns flat outputs. With `dtype` float64 it computes in that throughout.

    `draws` turns True once a call has advanced PyTorch's CPU generator.
    """

    def __init__(self, working: Working, interface: Interface, dtype: torch.dtype | None = None) -> None:
        self._working = working
        self._interface = interface
        self._dtype = dtype
        self.draws = False

    def __call__(
        self, args: Any, kwargs: Any, seed: int, prepare: Callable[[nn.Module], None] | None = None
    ) -> list[torch.Tensor]:
        """Run forward without gradients, its draws fixed by `seed`.

        `prepare` may change the copy's parameters before the call; they are put back. Where the user's module could
        not be copied, `prepare` is not called. Raises whatever the user's forward raises.
        """
        if self._dtype is not None:
            args, kwargs = pytree.tree_map(self._cast, (args, kwargs))
        with seeded(seed), default_dtype(self._dtype), self._working.fresh() as module:
            if prepare is not None and self._working.is_copy:
                prepare(module)
            before = torch.default_generator.get_state()
            result = module(*clone_tensors(args), **clone_tensors(kwargs))
            self.draws |= not torch.equal(before, torch.default_generator.get_state())
            # Cloned, because a result may be a view of a buffer that is about to be put back.
            return [t.clone() for t in self._interface.flatten_result(result)]

    def _cast(self, leaf: Any) -> Any:
        return leaf.to(self._dtype) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """PyTorch's CPU generator at `seed` inside, untouched outside."""
    state = torch.default_generator.get_state()
    try:
        torch.default_generator.manual_seed(seed)
        yield
    finally:
        torch.default_generator.set_state(state)


@contextmanager
def default_dtype(dtype: torch.dtype | None) -> Iterator[None]:
    """The default floating-point dtype inside, so that tensors made by forward have it too."""
    before = torch.get_default_dtype()
    try:
        if dtype is not None:
            torch.set_default_dtype(dtype)
        yield
    finally:
        torch.set_default_dtype(before)
