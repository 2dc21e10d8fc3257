"""A normaliser holds its initial statistics: mean 0 and variance 1.

## What it does

Finds pairs of buffers such as `running_mean` and `running_var`, or `obs_mean` and `obs_std`, whose values are exactly 0
and exactly 1 in every element.

## Why it matters

A normaliser that saw data has other numbers. Exact zeros and ones mean that the statistics were never loaded: the
wrapper (`VecNormalize`, an RSL-RL empirical normaliser) was built anew, or its file was saved beside the policy and
forgotten. The network was trained on normalised observations and now gets raw ones. Nothing that compares the deployed
policy with the module can see it, because both are wrong in the same way.

## Example

```python
policy = Policy(normaliser=EmpiricalNormalization(48))
policy.actor.load_state_dict(checkpoint["actor"])  # the normaliser keeps mean 0, var 1
```

## Use instead

```python
policy = Policy(normaliser=EmpiricalNormalization(48))
policy.load_state_dict(checkpoint["policy"])  # actor and normaliser
```

## References

- VecNormalize.load: https://stable-baselines3.readthedocs.io/en/master/guide/vec_envs.html#vecnormalize
- torch.nn.BatchNorm1d, initial running statistics:
  https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._modules import named_modules, normalisers

if TYPE_CHECKING:
    from torch import nn

    from graphaudit.audit.subject import Subject


class NormalisationDefaultStatistics(Check):
    code = "GA503"
    name = "normalisation-default-statistics"
    severity = Severity.WARNING
    remedy = "Load the normaliser's statistics together with the policy's weights."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Untouched statistics: a warning at the input, a note for batch norm further inside."""
        first = _first_with_state(subject)
        for path, module, mean, spread in normalisers(subject.policy):
            if not _untouched(module, mean, spread):
                continue
            inside = "Norm" in type(module).__name__ and module is not first and _is_torch(module)
            own = "" if path == "the policy" else f"{path}."
            message = f"{own}{mean} is exactly 0 and {own}{spread} exactly 1: statistics that never saw data"
            yield self.finding(message, node=own + mean, severity=Severity.NOTE if inside else None)


def _first_with_state(subject: Subject) -> nn.Module | None:
    """The first layer in the order of definition that has parameters or buffers of its own."""
    for _, module in named_modules(subject.policy):
        if any(True for _ in module.children()):
            continue
        if any(True for _ in module.parameters()) or any(True for _ in module.buffers()):
            return module
    return None


def _untouched(module: nn.Module, mean: str, spread: str) -> bool:
    import torch

    low, high = getattr(module, mean), getattr(module, spread)
    if not (low.numel() and low.is_floating_point() and high.is_floating_point()):
        return False
    return bool(torch.all(low == 0)) and bool(torch.all(high == 1))


def _is_torch(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.nn")
