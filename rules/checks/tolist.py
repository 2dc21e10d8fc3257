"""A tensor becomes a Python list inside `forward`.

## What it does

Reports `.tolist()`.

## Why it matters

Every element becomes a Python number, with all that `.item()` brings: indices and lengths of the example are baked
into the graph, and the values of later inputs are never looked at.

## Example

```python
def forward(self, weights, idx):
    out = 0
    for j, k in enumerate(idx.tolist()):
        out = out + weights[j] * self.embedding[k]
    return out
```

## Use instead

The index tensor does the lookup:

```python
def forward(self, weights, idx):
    return (weights[:, None] * self.embedding[idx]).sum(0)
```

## References

- torch.Tensor.tolist: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.tolist.html
- torch.index_select: https://docs.pytorch.org/docs/stable/generated/torch.index_select.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, unless_captured

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class Tolist(Check):
    code = "GA114"
    name = "tolist"
    severity = Severity.ERROR
    remedy = "Index with the tensor itself (tensor[idx], gather, index_select)."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every call of `tolist`."""
        for event in events(subject, "tolist"):
            severity = unless_captured(subject, event.place)
            yield self.finding("a tensor becomes a Python list here", place=event.place, severity=severity)
