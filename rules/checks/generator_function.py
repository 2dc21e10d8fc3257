"""A tensor decides inside of a generator.

## What it does

Reports functions with `yield` in which a condition on a tensor was met.

## Why it matters

A generator stops in its middle and goes on when it is asked. Its branches cannot run on both sides, because each would
have to stop for itself.

## Example

```python
def candidates(self, obs):
    for row in obs:
        if row.norm() > 1:
            yield row / row.norm()
```

## Use instead

A function that returns a list, whose entries have masks:

```python
def candidates(self, obs):
    return [row / row.norm() for row in obs if row.norm() > 1]
```

## References

- Python on generators: https://docs.python.org/3/reference/expressions.html#yield-expressions
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._refusals import refusals

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class GeneratorFunction(Check):
    code = "GA129"
    name = "generator-function"
    severity = Severity.ERROR
    remedy = "Return a list in place of yielding its entries."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The refusals of that kind, at the condition."""
        for reason, place in refusals(subject, self.name):
            yield self.finding(reason, place=place)
