"""Draws of random numbers: those of a graph, and the noise inputs that stand in their place.

A noise input holds what PyTorch's CPU generator gives, before the policy computes with it. Drawn in the order of `draw`
with `draw_noise`, the inputs are the very numbers that the eager module draws under the same seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import fx

from graphaudit.graphs import foreign
from graphaudit.interface import Slot

Distribution = Literal["uniform", "normal", "exponential", "randint", "permutation"]

_OFF = {"dropout": 0, "dropout_p": 0, "p": 0, "train": False, "training": False}  # arguments that switch drawing off


@dataclass(frozen=True)
class Noise:
    """One noise input. `draw` is its place in the order of draws; names in `shape` are those of the arguments' shapes.

    uniform       in [0, 1)
    normal        mean 0, standard deviation 1; with `serial`, drawn one after the other whatever their number
    exponential   rate 1
    randint       whole numbers from `low` up to `high` − 1, int64
    permutation   0 … `n` − 1 in random order, int64

    `generator` is whose sequence it is: PyTorch's, or the global one of Python or NumPy (see graphs/foreign.py).
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    distribution: Distribution
    parameters: Mapping[str, int] = field(default_factory=dict)
    draw: int = 0
    generator: Literal["torch", "python", "numpy-legacy"] = "torch"

    @property
    def slot(self) -> Slot:
        """The input as a slot of the model."""
        return Slot(self.name, "", self.dtype, self.shape)


def draw_noise(noise: Sequence[Noise], inputs: Sequence[torch.Tensor], slots: Sequence[Slot]) -> list[torch.Tensor]:
    """All noise of one call, in order, from the global generators; sizes are those of `inputs`, in `slots`."""
    sizes = {
        name: size
        for slot, tensor in zip(slots, inputs)
        for name, size in zip(slot.shape, tensor.shape)
        if isinstance(name, str)
    }
    return [_draw(n, [sizes[d] if isinstance(d, str) else d for d in n.shape]) for n in noise]


def draws(node: fx.Node) -> bool:
    """Whether a node draws random numbers. An operator that only may (dropout in inference) does not."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    given = bound(node)
    is_dropout = any("dropout" in word for word in (str(target), *given)) or "train" in given or "training" in given
    return not (is_dropout and any(key in given and given[key] == off for key, off in _OFF.items()))


def bound(node: fx.Node) -> dict[str, Any]:
    """The arguments of an operator's call by name, defaults included."""
    target = node.target
    assert isinstance(target, torch._ops.OpOverload)
    given: dict[str, Any] = {}
    for position, argument in enumerate(target._schema.arguments):
        if position < len(node.args) and not argument.kwarg_only:
            given[argument.name] = node.args[position]
        else:
            given[argument.name] = node.kwargs.get(argument.name, argument.default_value)
    return given


def _draw(noise: Noise, shape: list[int]) -> torch.Tensor:
    dtype = getattr(torch, noise.dtype)
    if noise.generator != "torch":
        source = foreign.global_source(noise.generator)
        return torch.from_numpy(foreign.draw(source, noise.distribution, shape, noise.parameters)).to(dtype)
    if noise.distribution == "uniform":
        return torch.rand(shape, dtype=dtype)
    if noise.distribution == "normal":
        return _serial(shape, dtype) if noise.parameters.get("serial") else torch.randn(shape, dtype=dtype)
    if noise.distribution == "exponential":
        return torch.empty(shape, dtype=dtype).exponential_()
    if noise.distribution == "randint":
        return torch.randint(noise.parameters["low"], noise.parameters["high"], shape)
    return torch.randperm(noise.parameters["n"])


def _serial(shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    """Normals in runs of 8: PyTorch draws fewer than 16 one after the other."""
    left = math.prod(shape)
    runs = [torch.randn(min(8, left - first), dtype=dtype) for first in range(0, left, 8)]
    return torch.cat([torch.empty(0, dtype=dtype), *runs]).reshape(shape)
