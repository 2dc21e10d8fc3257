"""A list whose length a tensor decides is used where its length has to be known.

## What it does

Reports lists that grow under a condition on a tensor, or comprehensions with such a condition, and then become a tensor
or are indexed in their middle.

## Why it matters

Such a list may be looped over, summed, counted and asked for its largest: each entry has a mask. A tensor of its
entries would have a shape that depends on data.

## Example

```python
def forward(self, scores):
    kept = [s for s in scores if s > 0]
    return torch.stack(kept).mean()
```

## Use instead

The reduction over the list, or over a mask:

```python
def forward(self, scores):
    kept = [s for s in scores if s > 0]
    return sum(kept) / len(kept)
```

## References

- torch.export, dynamic shapes: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._refusals import refusals

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ListLengthDiffers(Check):
    code = "GA125"
    name = "list-length-differs"
    severity = Severity.ERROR
    remedy = "Reduce the list itself (sum, len, max, any, all, a loop), or keep all entries with a mask beside them."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The refusals of that kind, where the list is used."""
        for reason, place in refusals(subject, self.name):
            yield self.finding(reason, place=place)
