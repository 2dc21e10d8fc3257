"""Runs a private copy of the policy with probes in its functions."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from graphaudit.equivalence.eager import Eager
from graphaudit.equivalence.inputs import Sample, example_interface
from graphaudit.paths.recorder import Recorder, Run, TooLong
from graphaudit.policy import Policy
from graphaudit.policy.isolation import private_copy

_WORK_OF_A_RUN = 40  # copying, seeding and putting back, in calls of torch


class Walker:
    """The policy, run as the equivalence check runs it, and recorded."""

    def __init__(self, policy: Policy) -> None:
        working = private_copy(policy.module, policy.gradients)
        self.walks = working.is_copy  # the user's own module is not touched
        self.recorder = Recorder()
        self._eager = Eager(working, example_interface(policy))
        self.leaves: list[torch.Tensor] = []
        self._calls = 0
        self.work = 0  # calls of torch so far, and what a run costs by itself

    def run(self, sample: Sample, seed: int, *, gradients: bool = False) -> Run | None:
        """What the policy does on a sample; None where it raises. `leaves` are then the inputs to derive by."""
        self.leaves = []
        margins = self.recorder.start()

        def prepare(module: nn.Module) -> None:
            self.recorder.constants.start(module)
            self.recorder.install(module)
            if gradients:
                self._derive(module)

        try:
            with margins:
                self._eager(sample.args, sample.kwargs, seed, prepare, strict=not sample.is_own)
        except (Exception, TooLong):  # the user's forward on an input that nobody promised would do
            return None
        finally:
            self.recorder.uninstall()
            self._calls = margins.calls
            self.work += _WORK_OF_A_RUN + self._calls
        return self.recorder.run

    def derivatives(self, margin: torch.Tensor) -> torch.Tensor | None:
        """The gradient of a margin of the last run by its floating-point inputs, in one row; None without one."""
        self.work += _WORK_OF_A_RUN
        floats = [leaf for leaf in self.leaves if leaf.requires_grad]
        if not floats or not margin.requires_grad:
            return None
        self.work += 2 * self._calls
        try:
            found = torch.autograd.grad(margin, floats, retain_graph=True, allow_unused=True)
        except (RuntimeError, NotImplementedError):  # an operator of the policy's that has no gradient
            return None
        parts = [torch.zeros_like(f) if g is None else g for f, g in zip(floats, found)]
        row = torch.cat([p.double().flatten() for p in parts])
        return row if bool(row.isfinite().all()) and bool(row.any()) else None

    def _derive(self, module: nn.Module) -> None:
        """Let the outermost forward compute with gradients of its inputs."""
        forward = module.forward

        def with_gradients(*args: Any, **kwargs: Any) -> Any:
            with torch.enable_grad():
                return forward(*self._leaf(args), **self._leaf(kwargs))

        vars(module)["forward"] = with_gradients

    def _leaf(self, tree: Any) -> Any:
        def one(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            self.leaves.append(leaf)
            return leaf.requires_grad_().clone() if leaf.is_floating_point() else leaf

        return torch.utils._pytree.tree_map(one, tree)
