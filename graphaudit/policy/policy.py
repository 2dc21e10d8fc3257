"""The policy: an `nn.Module` to deploy, with example inputs and, if the user has one, a source of more inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from graphaudit.interface import Interface, interface_of
from graphaudit.policy.isolation import Working, private_copy


@dataclass
class Policy:
    """A module to deploy. The engine never runs or changes `module` itself; it works on `working`.

    name            how reports call it, `walker.py:build`
    example_args    one call's positional arguments; they fix ranks, dtypes and structure
    inputs          seed → positional arguments, for as many calls as wanted
    dynamic_shapes  one entry for each positional argument: None or {dimension: name}, nested like the argument
    reference       the full pipeline that the deployed policy must match, where that is more than the module
    file            the user's source file, if there is one
    exported        set when the policy came as a `.pt2` file
    numbers         paths of 0-d tensors that stand for Python numbers of the user's own calls
    cut             names of results that the module gave before and that are not deployed
    optional        paths of tensors, zeros where the user's own calls have None
    gradients       whether forward takes gradients that the caller must have switched on
    loop_bounds     how often loops on tensors may run: `N`, or `file.py:LINE=N` for the loop there
    """

    name: str
    module: nn.Module
    example_args: tuple[Any, ...]
    example_kwargs: Mapping[str, Any] = field(default_factory=dict)
    inputs: Callable[[int], Sequence[Any]] | None = None
    dynamic_shapes: Sequence[Any] | None = None
    reference: nn.Module | None = None
    file: Path | None = None
    exported: ExportedProgram | None = None
    loop_bounds: Sequence[str | int] = ()
    cut: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    gradients: bool = False

    @cached_property
    def working(self) -> Working:
        """A private copy of the module in eval mode, that forgets what a call changed."""
        return private_copy(self.module, self.gradients)

    @cached_property
    def interface(self) -> Interface:
        """The tensors that go in and come out, found by running the example once."""
        result = self.working(*self.example_args, **self.example_kwargs)
        return interface_of(self.module.forward, self.example_args, self.example_kwargs, result, self.dynamic_shapes)

    @property
    def parameter_count(self) -> int:
        """Number of scalars in the module's parameters."""
        return sum(p.numel() for p in self.module.parameters())

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point dtype of the parameters, or of the example inputs; float32 where neither has one."""
        tensors = [*self.module.parameters(), *(t for t in self.example_args if isinstance(t, torch.Tensor))]
        return next((t.dtype for t in tensors if t.is_floating_point()), torch.float32)
