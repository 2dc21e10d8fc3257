"""`forward` writes to its argument.

## What it does

Reports in-place writes to tensors that the caller passed in.

## Why it matters

In eager the caller's tensor changes too; the deployed model works on a copy and leaves it alone. A loop that reuses the
observation after the call (to log it, or as the next input) sees raw values where it saw scaled ones. Capture keeps the
result of `forward` itself right.

## Example

```python
def forward(self, obs):
    obs[:, 0] *= 0.5
    return self.net(obs)
```

## Use instead

```python
def forward(self, obs):
    obs = obs * self.scale  # a buffer: 0.5 in column 0, else 1
    return self.net(obs)
```

## References

- In-place operations: https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-operations-with-autograd
- Input mutations in torch.export: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class InputMutation(Check):
    code = "GA510"
    name = "input-mutation"
    severity = Severity.WARNING
    remedy = "Work on a copy (obs.clone()), or compute the new tensor without writing."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every write to an argument."""
        for event in events(subject, "write-input"):
            message = f"{event.detail} is written here; the deployed model leaves the caller's tensor as it is"
            yield self.finding(message, place=event.place)
