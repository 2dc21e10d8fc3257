"""A tensor is written in place that has another name on some paths only.

## What it does

Reports in-place writes to a tensor that a branch has made another variable's value on one of its sides.

## Why it matters

After `if c: b = a`, a write to `a` changes `b` on one path and not on the other. Both sides run under a mask, which
selects values; it cannot make two names one tensor.

## Example

```python
def forward(self, obs):
    a, b = obs * 2, obs + 1
    if obs[0] > 0:
        b = a
    a += 1
    return b
```

## Use instead

A new tensor in place of the write:

```python
def forward(self, obs):
    a, b = obs * 2, obs + 1
    if obs[0] > 0:
        b = a
    a = a + 1
    return b
```

## References

- torch.export, aliasing and mutation: https://docs.pytorch.org/docs/stable/export/programming_model.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._refusals import refusals

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class AliasedWrite(Check):
    code = "GA128"
    name = "aliased-write"
    severity = Severity.ERROR
    remedy = "Write `a = a + 1` instead of `a += 1`, or give the other name a clone."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The refusals of that kind, at the write."""
        for reason, place in refusals(subject, self.name):
            yield self.finding(reason, place=place)
