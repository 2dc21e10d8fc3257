"""The two sides of a branch on a tensor give values that no tensor can be.

## What it does

Reports branches whose sides leave a variable as a tensor and None, as two strings, as tensors of two dtypes or as two
objects, where that value has to become part of the result.

## Why it matters

Both sides of a branch run, and a mask selects between what they leave. A mask selects between two tensors of one dtype
or two numbers. While such a value is only compared (`is None`, `== "fast"`), the comparison becomes the mask.

## Example

```python
def forward(self, obs):
    if obs[0, 0] > 0:
        return self.net(obs)
    return None
```

## Use instead

A value of the same kind on both sides, and a flag where the difference matters:

```python
def forward(self, obs):
    valid = obs[0, 0] > 0
    return torch.where(valid, self.net(obs), 0.0), valid
```

## References

- torch.cond, what both branches must agree in: https://docs.pytorch.org/docs/stable/generated/torch.cond.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._refusals import refusals

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class BranchTypesDiffer(Check):
    code = "GA124"
    name = "branch-types-differ"
    severity = Severity.ERROR
    remedy = "Leave a tensor of the same dtype on both sides, zeros for example, and return a flag beside it."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The refusals of that kind, at the branch."""
        for reason, place in refusals(subject, self.name):
            yield self.finding(reason, place=place)
