"""`forward` changes a Python attribute of the module.

## What it does

Reports plain attributes (numbers, lists, dictionaries, tensors that are no buffers) that a call of `forward` changed,
and says whether later results depend on them.

## Why it matters

Python runs once, at capture. `self.t += 1` counts to one and stops: a gait phase never advances. A frame history kept
in a list is the history of the example. Nothing in the model or its outputs shows it.

## Example

```python
def forward(self, obs):
    self.t += 1
    phase = torch.tensor([2 * math.pi * self.t / 10])
    return self.net(torch.cat([obs, phase.expand(obs.shape[0], 1)], -1))
```

## Use instead

```python
def forward(self, obs, t):
    t = t + 1
    phase = 2 * math.pi * t / 10
    return self.net(torch.cat([obs, phase.expand(obs.shape[0], 1)], -1)), t
```

## References

- torch.export, attributes are constants: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import frozen_at
from graphaudit.rules.checks._state import writes

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class PythonStateMutation(Check):
    code = "GA507"
    name = "python-state-mutation"
    severity = Severity.ERROR
    remedy = "Make the state an argument and a result of forward."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every attribute that a call changed."""
        for place, names, worst in writes(subject, "write-attribute"):
            severity = Severity.ERROR if frozen_at(subject, place) else worst
            lost = "the next call depends on it" if severity is Severity.ERROR else "no result depends on it"
            message = f"attribute {names} is changed; {lost}, and a model has no attributes"
            yield self.finding(message, place=place, severity=severity)
