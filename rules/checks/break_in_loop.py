"""A loop ends early when a tensor says so.

## What it does

Reports a `break` or `continue` under a condition on a tensor, inside a loop.

## Why it matters

The number of steps is data, although the loop's range looks fixed. A tracer records the steps that the example took.
Because the range is a bound, this is the kind that can be made exact on every target: run all steps, and keep a flag
that says whether the loop is still running.

## Example

```python
def forward(self, obs):
    step = 1.0
    for _ in range(10):
        candidate = self.plan + step * self.direction(obs)
        if self.cost(candidate) < self.cost(self.plan):
            break
        step *= 0.5
    return candidate
```

## Use instead

```python
def forward(self, obs):
    steps = 0.5 ** torch.arange(10.0)
    candidates = self.plan + steps[:, None] * self.direction(obs)
    better = self.cost(candidates) < self.cost(self.plan)
    first = torch.where(better.any(), better.float().argmax(0), 9)
    return candidates[first]
```

## References

- https://github.com/pytorch/pytorch/issues/153955
- torch.export, data-dependent control flow: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, unless_captured

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class BreakInLoop(Check):
    code = "GA105"
    name = "break-in-loop"
    severity = Severity.ERROR
    remedy = "Run every step and keep a mask that says whether the loop is still running."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every tensor condition whose body breaks out of a loop or continues it."""
        for event in events(subject, "bool"):
            word = next((w for w in ("break", "continue") if w in event.inside), None)
            if word is not None:
                severity = unless_captured(subject, event.place)
                message = f"whether this loop meets its {word} depends on the value of a tensor"
                yield self.finding(message, place=event.place, severity=severity)
