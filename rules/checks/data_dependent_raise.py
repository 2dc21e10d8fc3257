"""An exception is raised where the value of a tensor decides.

## What it does

Reports every `raise`, failed look-up and use of None that a tensor decides on, once capture has made a guard of it.

## Why it matters

A graph does not raise. A policy that refuses an input must not act on it once it is deployed, so the condition becomes
an output of the model, and `graphaudit.load` raises GuardError where it is true. Whoever runs the model without
graphaudit has to read that output.

## Example

```python
def forward(self, obs):
    if obs.abs().max() > 10:
        raise ValueError("sensor out of range")
    return self.net(obs)
```

## Use instead

Nothing, if raising is what you want. To go on instead, return the condition:

```python
def forward(self, obs):
    return self.net(obs), obs.abs().max() > 10
```

## References

- torch.export, errors and assertions: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class DataDependentRaise(Check):
    code = "GA131"
    name = "data-dependent-raise"
    severity = Severity.NOTE
    remedy = "Read the guard output where the model runs without graphaudit.load."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every guard of an exception; assertions have a finding of their own."""
        program = subject.capture.program if subject.capture is not None else None
        for guard in program.interface.guards if program is not None else ():
            if guard.raises and guard.raises != "AssertionError":
                message = f"{guard.raises} becomes the guard output {guard.name}: the deployed policy raises GuardError"
                yield self.finding(message, place=guard.place)
