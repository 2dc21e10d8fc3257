"""A tensor becomes a Python number inside `forward`.

## What it does

Reports `.item()`, `int(tensor)`, `float(tensor)` and tensors used as Python indices.

## Why it matters

From there on, Python computes, and the graph does not see it. A tracer keeps the example's number as a constant;
`torch.export` makes an unknown number of it, and refuses the line where Python first needs to know it. On an
accelerator, each such read also waits for the device.

## Example

```python
def forward(self, obs):
    speed = obs[:, :3].norm().item()
    return self.net(obs) * (1.0 / max(speed, 1.5))
```

## Use instead

A 0-dimensional tensor takes part in arithmetic like a number:

```python
def forward(self, obs):
    speed = obs[:, :3].norm()
    return self.net(obs) / speed.clamp(min=1.5)
```

## References

- https://github.com/pytorch/pytorch/issues/173915
- torch.export, data-dependent values: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, unless_captured

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ItemCall(Check):
    code = "GA113"
    name = "item-call"
    severity = Severity.ERROR
    remedy = "Keep the value a 0-dimensional tensor and compute with tensor operations."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every read of a tensor as one Python number."""
        for event in events(subject, "item"):
            severity = unless_captured(subject, event.place)
            yield self.finding("a tensor becomes a Python number here", place=event.place, severity=severity)
