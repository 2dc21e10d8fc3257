"""The calls that capture traces: the example, and another one with other values and other sizes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from graphaudit.errors import PolicyError
from graphaudit.interface import Slot, resize
from graphaudit.policy import Policy

_SEEDS_TRIED = 8


@dataclass(frozen=True)
class Call:
    """Arguments of one call, with the names of the dimensions that may vary.

    `leaves` are the flattened arguments; `slots` describe the tensors among them, in order.
    """

    leaves: tuple[Any, ...]
    spec: pytree.TreeSpec
    slots: tuple[Slot, ...]
    forward: Callable[..., Any]

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments."""
        return tuple(pytree.tree_unflatten(list(self.leaves), self.spec)[0])

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return dict(pytree.tree_unflatten(list(self.leaves), self.spec)[1])

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each named dimension in this call."""
        found: dict[str, int] = {}
        for tensor, slot in self._tensors():
            found |= {name: size for name, size in zip(slot.shape, tensor.shape) if isinstance(name, str)}
        return found

    @property
    def dynamic_shapes(self) -> dict[str, Any] | None:
        """What `torch.export.export` wants: a `Dim` for each named dimension, by parameter; None without any."""
        names = sorted({d for slot in self.slots for d in slot.shape if isinstance(d, str)})
        if not names:
            return None
        dims = {name: Dim(name) for name in names}
        slots = iter(self.slots)

        def entry(leaf: Any) -> dict[int, Any] | None:
            if not isinstance(leaf, torch.Tensor):
                return None
            return {d: dims[name] for d, name in enumerate(next(slots).shape) if isinstance(name, str)}

        args, kwargs = pytree.tree_unflatten([entry(leaf) for leaf in self.leaves], self.spec)
        return dict(inspect.signature(self.forward).bind(*args, **kwargs).arguments)

    def resized(self, sizes: Mapping[str, int]) -> Call:
        """The same values at other sizes of the named dimensions: cut, or repeated from the start."""
        slots = iter(self.slots)
        return replace(
            self,
            leaves=tuple(
                resize(leaf, next(slots).shape, sizes) if isinstance(leaf, torch.Tensor) else leaf
                for leaf in self.leaves
            ),
        )

    def with_values_of(self, other: Call) -> Call:
        """The values of `other` at the sizes of this call."""
        return other.resized(self.sizes)

    def with_sizes_of(self, other: Call) -> Call:
        """The values of this call at the sizes of `other`."""
        return self.resized(other.sizes)

    def _tensors(self) -> list[tuple[torch.Tensor, Slot]]:
        return list(zip([v for v in self.leaves if isinstance(v, torch.Tensor)], self.slots, strict=True))


def example_call(policy: Policy) -> Call:
    """The policy's example; dimensions that may vary are given at least size 2, because torch.export takes a size of
    1 for a constant. Raises PolicyError where a name is given to dimensions of different sizes."""
    call = _call(policy, policy.example_args, policy.example_kwargs)
    for tensor, slot in call._tensors():
        for size, name in zip(tensor.shape, slot.shape):
            if isinstance(name, str) and call.sizes[name] != size:
                raise PolicyError(
                    f"dynamic_shapes calls dimensions of sizes {call.sizes[name]} and {size} both {name!r}",
                    "Give dimensions that may differ different names.",
                )
    return call.resized({name: max(2, size) for name, size in call.sizes.items()})


def other_call(policy: Policy, call: Call) -> Call:
    """Another call of the same structure: the user's where one fits, else the example with other values; every
    dimension that may vary has another size."""
    values = next((c for c in _user_calls(policy) if _fits(c, call)), None) or _varied(call)
    return values.resized({name: size + 1 for name, size in call.sizes.items()})


def _call(policy: Policy, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    return Call(tuple(leaves), spec, policy.interface.inputs, policy.module.forward)


def _user_calls(policy: Policy) -> list[Call]:
    calls: list[Call] = []
    if policy.inputs is None:
        return calls
    for seed in range(1, _SEEDS_TRIED):
        args = policy.inputs(seed)
        leaves, spec = pytree.tree_flatten((tuple(args), dict(policy.example_kwargs)))
        if spec == policy.interface.in_spec:
            calls.append(Call(tuple(leaves), spec, policy.interface.inputs, policy.module.forward))
    return calls


def _fits(candidate: Call, call: Call) -> bool:
    """Whether only values and named dimensions differ, and some value does."""
    differs = False
    slots = iter(call.slots)
    for mine, theirs in zip(candidate.leaves, call.leaves, strict=True):
        if isinstance(theirs, torch.Tensor):
            slot = next(slots)
            if not isinstance(mine, torch.Tensor) or mine.dtype != theirs.dtype or mine.dim() != theirs.dim():
                return False
            if any(isinstance(n, int) and a != b for n, a, b in zip(slot.shape, mine.shape, theirs.shape)):
                return False
            if 0 in mine.shape:
                return False
            differs = differs or mine.shape != theirs.shape or not torch.equal(mine, theirs)
        elif isinstance(mine, torch.Tensor) or mine != theirs:
            return False
    return differs


def _varied(call: Call) -> Call:
    generator = torch.Generator().manual_seed(1)

    def vary(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.is_complex():
            return leaf
        if leaf.is_floating_point():
            scale = leaf.abs().max().clamp(min=1.0) if leaf.numel() else 1.0
            return leaf * 0.75 + 0.25 * scale * torch.rand(leaf.shape, generator=generator).to(leaf.dtype)
        if leaf.dtype is torch.bool:
            return torch.rand(leaf.shape, generator=generator) > 0.5
        flat = leaf.flatten()  # integers may be indices: only values that were seen are safe
        return flat[torch.randint(0, max(1, flat.numel()), flat.shape, generator=generator)].reshape(leaf.shape)

    return replace(call, leaves=tuple(vary(leaf) for leaf in call.leaves))
