"""A Python list or dictionary is indexed with the value of a tensor.

## What it does

Reports lookups in Python tables (gains, schedules, action sets) with a number that came out of a tensor.

## Why it matters

Python does the lookup, once, while the graph is made. The graph holds the entry of the example's index as a constant.

## Example

```python
GAINS = {0: 0.1, 1: 0.5, 2: 1.0, 3: -1.0}

def forward(self, obs):
    k = int(self.net(obs).argmax())
    return torch.tanh(obs) * GAINS[k]
```

## Use instead

The table is a buffer, the lookup an operator:

```python
def __init__(self):
    super().__init__()
    self.register_buffer("gains", torch.tensor([0.1, 0.5, 1.0, -1.0]))

def forward(self, obs):
    k = self.net(obs).argmax(-1)
    return torch.tanh(obs) * self.gains[k]
```

## References

- https://github.com/pytorch/pytorch/issues/116336
- torch.index_select: https://docs.pytorch.org/docs/stable/generated/torch.index_select.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import unless_captured
from graphaudit.rules.checks._tables import holds_modules, lookups

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class PythonTableLookup(Check):
    code = "GA117"
    name = "python-table-lookup"
    severity = Severity.ERROR
    remedy = "Register the table as a buffer and index it with the tensor."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Lookups in containers that hold anything but modules."""
        for lookup in lookups(subject):
            if not holds_modules(lookup.table):
                severity = unless_captured(subject, lookup.place)
                message = f"Python looks up {lookup.text} with the value of a tensor"
                yield self.finding(message, place=lookup.place, severity=severity)
