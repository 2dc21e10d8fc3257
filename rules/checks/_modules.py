"""The modules of a policy as it was handed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

    from graphaudit.policy import Policy

MEANS = ("mean", "mu", "avg")
SPREADS = ("var", "variance", "std", "sigma")


def named_modules(policy: Policy | None) -> Iterator[tuple[str, nn.Module]]:
    """Path and module of every part; the policy itself is called `the policy`. Nothing for exported programs."""
    if policy is None or policy.exported is not None:
        return
    for name, module in policy.module.named_modules():
        yield name or "the policy", module


def training_modules(policy: Policy | None) -> Iterator[tuple[str, nn.Module]]:
    """The parts that are in train mode."""
    return ((name, module) for name, module in named_modules(policy) if module.training)


def statistic(name: str) -> tuple[str, str] | None:
    """`running_mean` → (`running`, `mean`), `obs_var` → (`obs`, `spread`); None for every other buffer name."""
    prefix, _, last = name.strip("_").lower().rpartition("_")
    if last in MEANS:
        return prefix, "mean"
    return (prefix, "spread") if last in SPREADS else None


def normalisers(policy: Policy | None) -> Iterator[tuple[str, nn.Module, str, str]]:
    """(path, module, name of the mean, name of the variance or deviation) of every pair of buffers that normalises."""
    for path, module in named_modules(policy):
        found: dict[str, dict[str, str]] = {}
        for name, buffer in module.named_buffers(recurse=False):
            kind = statistic(name)
            if buffer is not None and kind is not None:
                found.setdefault(kind[0], {}).setdefault(kind[1], name)
        for pair in found.values():
            if len(pair) == 2:
                yield path, module, pair["mean"], pair["spread"]
