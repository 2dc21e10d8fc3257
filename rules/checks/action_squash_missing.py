"""The module lacks the squashing function that `reference()` applies to its output.

## What it does

Compares the reference's output with `tanh` and `sigmoid` of the module's, up to a factor and an offset for each
dimension, and reports the function if that agrees on every input.

## Why it matters

SAC and other policies with squashed Gaussians end in `tanh`. The layer called `mu` gives the value before it: the sign
of the action is right, and its size is not.

## Example

```python
def forward(self, obs):
    return self.mu(self.latent_pi(obs))
```

## Use instead

```python
def forward(self, obs):
    return torch.tanh(self.mu(self.latent_pi(obs)))
```

## References

- Exporting SAC: https://github.com/DLR-RM/stable-baselines3/issues/383
- Soft Actor-Critic Algorithms and Applications, appendix C: https://arxiv.org/abs/1812.05905
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._reference import missing_step

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ActionSquashMissing(Check):
    code = "GA643"
    name = "action-squash-missing"
    severity = Severity.WARNING
    remedy = "Apply the squashing function in the module that is deployed."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The squashing function that explains how the module differs from reference()."""
        yield from missing_step(type(self), subject)
