"""A function that `forward` runs calls itself, and a tensor decides how deep.

## What it does

Reports recursive functions and methods in which a condition on a tensor was seen.

## Why it matters

A graph has no call stack. Recursion whose depth is a Python number unrolls like a loop; recursion that a tensor ends
has a different graph for every depth, and with two recursive calls their number doubles at each level.

## Example

```python
def bisect(self, lo, hi, depth=0):
    mid = (lo + hi) / 2
    if depth == 6 or (hi - lo).abs().max() < 0.05:
        return mid
    if self.f(mid).sum() > 0:
        return self.bisect(lo, mid, depth + 1)
    return self.bisect(mid, hi, depth + 1)
```

## Use instead

A loop with a fixed count that keeps both ends as tensors:

```python
def bisect(self, lo, hi):
    for _ in range(6):
        mid = (lo + hi) / 2
        left = self.f(mid).sum() > 0
        lo, hi = torch.where(left, lo, mid), torch.where(left, mid, hi)
    return (lo + hi) / 2
```

## References

- https://github.com/pytorch/pytorch/issues/54297
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, unless_captured
from graphaudit.rules.checks._source import functions

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class Recursion(Check):
    code = "GA107"
    name = "recursion"
    severity = Severity.ERROR
    remedy = "Write the recursion as a loop with a fixed count and select with torch.where."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Calls of a function inside itself, where the function holds a condition on a tensor."""
        conditions = [e.place for e in events(subject, "bool", "item")]
        for function in functions(subject.policy):
            if not any(function.covers(p) for p in conditions):
                continue
            for call in function.calls():
                if function.resolve(call.func) is function.code:
                    place = function.place(call)
                    severity = unless_captured(subject, place)
                    message = f"{function.name} calls itself, as deep as a tensor says"
                    yield self.finding(message, place=place, severity=severity)
