"""The module lacks the rescaling of the action that `reference()` applies.

## What it does

Fits a factor and an offset for each dimension between the module's output, squashed or not, and the reference's, and
reports them if they agree on every input.

## Why it matters

Policies work on actions between −1 and 1; the range of the real actuator is applied by the library's `predict` or by an
environment wrapper, and is not part of the network.

## Example

```python
def forward(self, obs):
    return torch.tanh(self.mu(obs))  # the actuator takes 0 to 5
```

## Use instead

```python
def forward(self, obs):
    action = torch.tanh(self.mu(obs))
    return self.low + 0.5 * (action + 1.0) * (self.high - self.low)
```

## References

- BasePolicy.unscale_action: https://stable-baselines3.readthedocs.io/en/master/modules/base.html
- RescaleAction: https://gymnasium.farama.org/api/wrappers/action_wrappers/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._reference import missing_step

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ActionRescaleMissing(Check):
    code = "GA644"
    name = "action-rescale-missing"
    severity = Severity.WARNING
    remedy = "Rescale the action to its real range in the module that is deployed."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The rescaling that explains how the module differs from reference()."""
        yield from missing_step(type(self), subject)
