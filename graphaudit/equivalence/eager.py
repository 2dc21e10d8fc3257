"""Runs the user's module, or its float64 copy, as a reference: same seed, same initial state, flat outputs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from graphaudit.graphs.held import running, standing, streams
from graphaudit.interface import Interface
from graphaudit.policy.held import HeldGenerators
from graphaudit.policy.isolation import Working, clone_tensors


@dataclass(frozen=True)
class Standing:
    """Where generators stand: the global ones of PyTorch, Python and NumPy, and those held ones that have drawn."""

    libraries: tuple[Any, ...]
    held: list[Any]

    def is_here(self, *, elsewhere: bool) -> bool:
        """Whether the next draws would be those that eager makes next; `elsewhere`: of Python and NumPy as well."""
        libraries = self.libraries if elsewhere else self.libraries[:1]
        here = _states() if elsewhere else (_torch_state(),)
        return libraries == here and (not self.held or all(state in running() for state in self.held))


class Eager:
    """A working copy of the module that returns flat outputs. With `wide` it computes in float64 throughout.

    `draws` turns True once a call has advanced a generator, `draws_elsewhere` if it was Python's or NumPy's global one,
    `draws_in_torch` if it was one of PyTorch's.
    """

    def __init__(self, working: Working, interface: Interface, *, wide: bool = False) -> None:
        self._working = working
        self._interface = interface
        self._wide = wide
        self._held = HeldGenerators(working.module)
        self.draws = self.draws_elsewhere = self.draws_in_torch = False
        self.after = Standing((), [])  # where the generators stand after the last call

    def __call__(
        self,
        args: Any,
        kwargs: Any,
        seed: int,
        prepare: Callable[[nn.Module], None] | None = None,
        *,
        strict: bool = False,
    ) -> list[torch.Tensor]:
        """Run forward, its draws fixed by `seed`; at 0 a held generator begins at its own state.

        With `strict`, calls outside of an operator's documented domain that PyTorch lets pass raise ValueError.

        `prepare` may change the copy's parameters before the call; they are put back. Where the user's module could
        not be copied, `prepare` is not called. Raises whatever the user's forward raises.
        """
        if self._wide:
            args, kwargs = pytree.tree_map(_widened, (args, kwargs))
        with seeded(seed), _in_float64() if self._wide else nullcontext(), self._working.fresh() as module:
            if prepare is not None and self._working.is_copy:
                prepare(module)
            self._held.seed(seed)
            before = _states()
            with _Documented() if strict else nullcontext():
                result = module(*clone_tensors(args), **clone_tensors(kwargs))
            after, moved = _states(), self._held.moved()
            self.draws |= before != after or bool(moved)
            self.draws_elsewhere |= before[1:] != after[1:]
            self.draws_in_torch |= before[0] != after[0] or bool(self._held.moved(torchs=True))
            self.after = Standing(after, [standing(self._held.sources[name]) for name in sorted(moved)])
            # Cloned, because a result may be a view of a buffer that is about to be put back.
            return [t.detach().clone() for t in self._interface.flatten_result(result)]


@contextmanager
def one_thread() -> Iterator[None]:
    """torch computes on one thread inside: sums in one order, so that no verdict depends on the number of cores.

    ONNX Runtime is given one thread as well. Policies are small: several threads mostly wait for one another, which
    multiplies the time of a check on a busy machine.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The global generators of PyTorch (CPU), Python and NumPy at `seed` inside, untouched outside."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        random.seed(seed)
        np.random.seed(seed % 2**32)
        with torch_seeded(seed):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def _states() -> tuple[bytes, object, object]:
    """Where the three global generators stand."""
    numpy: Any = np.random.get_state()
    _, words, *rest = numpy
    return _torch_state(), random.getstate(), (words.tobytes(), *rest)


def _torch_state() -> bytes:
    return torch.default_generator.get_state().numpy().tobytes()


@contextmanager
def torch_seeded(seed: int) -> Iterator[None]:
    """PyTorch's CPU generator and the streams of held ones, for captured graphs that draw from no other and run many
    times."""
    state = torch.default_generator.get_state()
    try:
        torch.default_generator.manual_seed(seed)
        with streams(seed):
            yield
    finally:
        torch.default_generator.set_state(state)


@contextmanager
def _in_float64() -> Iterator[None]:
    """Inside, tensors that forward makes are float64, and its casts to a narrower float go to float64 too."""
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with _Widen():
            yield
    finally:
        torch.set_default_dtype(before)


class _Widen(TorchFunctionMode):
    """Turns `x.float()`, `x.to(torch.float32)`, `torch.zeros(…, dtype=torch.float32)` and their kin to float64.

    Stable-Baselines3 and others cast observations to float32, which a module in float64 could not take.
    """

    _CASTS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)
    _SOURCES = (torch.from_numpy, torch.as_tensor, torch.tensor)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self._CASTS:
            return torch.Tensor.double(args[0])
        args = tuple(_wide_dtype(a) for a in args)
        result = func(*args, **{k: _wide_dtype(v) for k, v in (kwargs or {}).items()})
        return _widened(result) if func in self._SOURCES else result


class _Documented(TorchFunctionMode):
    """Raises where `torch.multinomial` is to draw more different categories than have a probability above zero.

    Its documentation forbids that, but PyTorch then goes on with ties in whatever order its sort has.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.multinomial, torch.Tensor.multinomial):
            _check_categories(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _check_categories(input: torch.Tensor, num_samples: int, replacement: bool = False, **_: Any) -> None:
    if not replacement and num_samples > 1 and bool(((input > 0).sum(-1) < num_samples).any()):
        raise ValueError("multinomial draws more categories than have a probability above zero")


def _wide_dtype(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value


def _widened(leaf: Any) -> Any:
    return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf
