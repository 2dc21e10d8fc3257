"""Capture made a constant of a value that varies between calls.

## What it does

The policy is captured more than once, under other inputs and other seeds, and the graphs are compared. A constant
that differs between two captures was computed in Python from something that varies: the graph holds the value of one
call for ever.

## Why it matters

This is the quietest way to ship a wrong policy. Nothing fails: the graph runs, its outputs have the right shapes, and
on the example it is exact. On every other input it uses the example's value. NumPy arrays, Python floats, numbers from
`random` and clock readings end up like this in nearly every capture tool.

## Example

```python
def forward(self, obs):
    gain = self.schedule.lookup(float(obs[0, 2]))  # a Python object answers with a Python float
    return gain * self.net(obs)                    # the graph multiplies by the example's gain
```

## Use instead

```python
def forward(self, obs):
    gain = self.gains[torch.bucketize(obs[0, 2], self.knots)]  # the table is a buffer, the lookup an operator
    return gain * self.net(obs)
```

## References

- torch.export, "non-tensor inputs and attributes are constants": https://docs.pytorch.org/docs/stable/export.html
- torch.jit.trace warns of the same: https://docs.pytorch.org/docs/stable/generated/torch.jit.trace.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import DRAWS, EXPLAIN_FROZEN, events, explained, frozen

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject

_VARIED = {"input": "for another input", "seed": "under another seed"}


class ValueFrozen(Check):
    code = "GA002"
    name = "value-frozen"
    severity = Severity.ERROR
    remedy = "Compute the value with tensor operations, or make it an argument of forward."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Frozen values that no other finding explains; frozen sizes belong to other checks."""
        seen = subject.observation
        drawn = seen is not None and seen.changes_with_seed and any(events(subject, *DRAWS))
        for value in frozen(subject):
            known = explained(subject, value.place, EXPLAIN_FROZEN) or (value.cause == "seed" and drawn)
            if value.cause != "size" and not known:
                varied = _VARIED.get(value.cause, "in another capture")
                message = f"the graph keeps {value.was} from the example; {varied} it is {value.became}"
                if not value.node:  # the other capture failed altogether
                    message = f"capture gives {value.was} for the example, but {varied} {value.became}"
                yield self.finding(message, place=value.place, node=value.node)
