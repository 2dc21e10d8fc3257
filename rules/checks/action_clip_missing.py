"""The module lacks the clipping of the action that `reference()` applies.

## What it does

Takes the smallest and largest value of each dimension of the reference's output as bounds, and reports them if the
module's output, clamped to them and rescaled where needed, agrees on every input.

## Why it matters

PPO and other policies with an unbounded Gaussian rely on a clip outside of the network. Without it the actuator is
given commands outside of its range.

## Example

```python
def forward(self, obs):
    return self.mu(obs)
```

## Use instead

```python
def forward(self, obs):
    return torch.clamp(self.mu(obs), self.low, self.high)
```

## References

- Clipping in predict: https://stable-baselines3.readthedocs.io/en/master/guide/export.html
- ClipAction: https://gymnasium.farama.org/api/wrappers/action_wrappers/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._reference import missing_step

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ActionClipMissing(Check):
    code = "GA645"
    name = "action-clip-missing"
    severity = Severity.WARNING
    remedy = "Clamp the action in the module that is deployed."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The clip that explains how the module differs from reference()."""
        yield from missing_step(type(self), subject)
