"""A tensor is indexed with a boolean mask.

## What it does

Reports `x[mask]` and `torch.masked_select` where the mask is a tensor.

## Why it matters

The result has as many rows as the mask has ones. An empty mask gives an empty tensor, whose mean is NaN: the deployed
policy should say what it does then. Writing through a mask (`x[mask] = 0`) has a fixed shape and is fine.

## Example

```python
def forward(self, entities, valid):
    return self.enc(entities)[valid].mean(0)
```

## Use instead

```python
def forward(self, entities, valid):
    h = self.enc(entities) * valid.unsqueeze(-1)
    return h.sum(0) / valid.sum().clamp(min=1)
```

## References

- torch.masked_select: https://docs.pytorch.org/docs/stable/generated/torch.masked_select.html
- https://github.com/pytorch/helion/issues/70
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, operator, unless_captured

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject

_OPERATORS = ("bool-mask-index", "masked_select")


class BoolMaskIndex(Check):
    code = "GA120"
    name = "bool-mask-index"
    severity = Severity.ERROR
    remedy = "Multiply by the mask, or select with torch.where, and keep every row."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every call of one of the operators in forward."""
        for event in events(subject, "data-shape"):
            if operator(event) in _OPERATORS:
                severity = unless_captured(subject, event.place)
                yield self.finding("this mask decides how many rows are left", place=event.place, severity=severity)
