"""`forward` returns None in a place where a tensor could stand.

## What it does

Names the parts of the result that are None.

## Why it matters

A graph has no None: the output is left out of the model, and the loader puts None back in its place. If the same place
holds a tensor in another mode or for other arguments, the deployed policy never returns it.

## Example

```python
def forward(self, obs):
    value = self.critic(obs) if self.training else None
    return self.actor(obs), value
```

## Use instead

```python
def forward(self, obs):
    return self.actor(obs)
```

## References

- torch.export, outputs are constants or tensors: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class NoneOutput(Check):
    code = "GA014"
    name = "none-output"
    severity = Severity.NOTE
    remedy = "Return only what the deployed policy needs."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """One finding for each None in the result."""
        for missing in subject.policy.interface.missing_outputs if subject.policy else ():
            yield self.finding(f"result{missing.path} is None; the model has no output for it", node=missing.path)
