"""`unique` keeps as many values as there are different ones.

## What it does

Reports `torch.unique` and `torch.unique_consecutive`.

## Why it matters

The number of different values is data, and so is the shape of everything computed from them. Few accelerators have the
operator.

## Example

```python
def forward(self, ids):
    return self.head(self.embedding(torch.unique(ids)).mean(0))
```

## Use instead

Where the values come from a small range, count which of them are present:

```python
def forward(self, ids):
    present = torch.zeros(self.vocabulary).index_fill(0, ids.flatten(), 1.0)
    return self.head(present @ self.embedding.weight / present.sum())
```

## References

- torch.unique: https://docs.pytorch.org/docs/stable/generated/torch.unique.html
- ONNX Unique: https://onnx.ai/onnx/operators/onnx__Unique.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, operator, unless_captured

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject

_OPERATORS = ("unique", "unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive")


class Unique(Check):
    code = "GA121"
    name = "unique"
    severity = Severity.ERROR
    remedy = "Mark which values are present (index_fill, scatter) and weigh by that."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every call of one of the operators in forward."""
        for event in events(subject, "data-shape"):
            if operator(event) in _OPERATORS:
                severity = unless_captured(subject, event.place)
                yield self.finding("how many values unique keeps is data", place=event.place, severity=severity)
