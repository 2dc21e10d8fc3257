"""A tensor decides in a function whose source cannot be rewritten.

## What it does

Reports conditions on tensors in functions that were made by exec, that are in no file, or that hold syntax that the
rewriting of control flow does not know; the reason is in the message.

## Why it matters

Branches become masks by rewriting the source of the functions that forward runs. Where there is no source, Python asks
the tensor for its truth, and no graph can answer.

## Example

```python
exec("def gate(x): return x if x.sum() > 0 else -x")
```

## Use instead

The same function in a file:

```python
def gate(x):
    return x if x.sum() > 0 else -x
```

## References

- inspect.getsource, and what has no source: https://docs.python.org/3/library/inspect.html#inspect.getsource
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._refusals import refusals

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class UnreadSource(Check):
    code = "GA130"
    name = "unread-source"
    severity = Severity.ERROR
    remedy = "Put the function into a file, without the syntax that the message names."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The refusals of that kind, at the condition."""
        for reason, place in refusals(subject, self.name):
            yield self.finding(reason, place=place)
