"""`nonzero` lists positions, as many as there are.

## What it does

Reports `torch.nonzero`, `torch.argwhere` and the one-argument `torch.where`.

## Why it matters

The number of positions is data, so every tensor computed from them has a shape that is data. See
`data-dependent-shape` for what targets make of it.

## Example

```python
def forward(self, obs):
    return (self.net(obs)[0] > 0).nonzero().squeeze(-1)  # the legal actions
```

## Use instead

Positions padded to a fixed number, with their count:

```python
def forward(self, obs):
    legal = self.net(obs)[0] > 0
    order = torch.argsort(legal.int(), descending=True, stable=True)
    return order, legal.sum()
```

## References

- torch.nonzero: https://docs.pytorch.org/docs/stable/generated/torch.nonzero.html
- https://github.com/NVIDIA/TensorRT/issues/559
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, operator, unless_captured

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject

_OPERATORS = ("nonzero", "argwhere")


class Nonzero(Check):
    code = "GA119"
    name = "nonzero"
    severity = Severity.ERROR
    remedy = "Use the mask itself, or positions padded to a fixed number with their count."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every call of one of the operators in forward."""
        for event in events(subject, "data-shape"):
            if operator(event) in _OPERATORS:
                severity = unless_captured(subject, event.place)
                yield self.finding(
                    "the number of positions that nonzero lists is data", place=event.place, severity=severity
                )
