"""`forward` reads the clock.

## What it does

Reports `time.time`, `time.perf_counter`, `datetime.now` and their kin while `forward` runs.

## Why it matters

The reading becomes a constant of the graph: a policy that schedules by time stays in the second of its capture. A
result that depends on the clock cannot be checked or replayed either.

## Example

```python
def forward(self, obs):
    phase = 2 * math.pi * (time.time() % 1.0)
    return self.net(torch.cat([obs, torch.tensor([[math.sin(phase), math.cos(phase)]])], -1))
```

## Use instead

Time is an input like any other:

```python
def forward(self, obs, phase):
    return self.net(torch.cat([obs, torch.sin(phase), torch.cos(phase)], -1))
```

## References

- torch.export, what is not a tensor is a constant: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import draw_severity, events

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class WallClock(Check):
    code = "GA122"
    name = "wall-clock"
    severity = Severity.WARNING
    remedy = "Make the time an argument of forward."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every reading of a clock: an error where results change, a warning where only its line was seen."""
        for event in events(subject, "clock"):
            severity = draw_severity(subject, event.place, Severity.WARNING)
            yield self.finding(
                "this reading of the clock becomes a constant of the graph", place=event.place, severity=severity
            )
