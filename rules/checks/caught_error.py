"""A `try` catches an error that the value of a tensor raises.

## What it does

Reports assertions, `raise` and look-ups that a tensor decides on inside of a `try` whose handlers would catch them.

## Why it matters

A graph does not raise, so it cannot go on in a handler. Outside of a `try` such an error becomes a guard output, and
the deployed policy raises.

## Example

```python
def forward(self, obs):
    try:
        assert obs.abs().max() < 10
        return self.net(obs)
    except AssertionError:
        return self.fallback(obs)
```

## Use instead

The condition itself:

```python
def forward(self, obs):
    if obs.abs().max() < 10:
        return self.net(obs)
    return self.fallback(obs)
```

## References

- Python on exceptions: https://docs.python.org/3/tutorial/errors.html
- torch.export, control flow: https://docs.pytorch.org/docs/stable/export/programming_model.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._refusals import refusals

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class CaughtError(Check):
    code = "GA127"
    name = "caught-error"
    severity = Severity.ERROR
    remedy = "Test the condition with an if instead of catching the error."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The refusals of that kind, at the line that raises."""
        for reason, place in refusals(subject, self.name):
            yield self.finding(reason, place=place)
