"""A size that may vary became a constant of the graph.

## What it does

Reports dynamic dimensions other than the first that capture fixed at the example's size, and `int(x.size(1))` and
`len(...)` on them.

## Why it matters

`torch.arange(t)` with a Python `t` holds as many positions as the example had time steps. Longer contexts fail or,
worse, broadcast; a decision transformer in its first steps has shorter ones.

## Example

```python
dynamic_shapes = ({1: "time"},)

def forward(self, x):
    t = int(x.size(1))
    return self.body(x + self.pos(torch.arange(t)))
```

## Use instead

```python
def forward(self, x):
    return self.body(x + self.pos.weight[: x.shape[1]])
```

## References

- torch.export, dynamic shapes: https://docs.pytorch.org/docs/stable/export.html#expressing-dynamism
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import unless_captured
from graphaudit.rules.checks._frozen import frozen_sizes, is_batch
from graphaudit.rules.checks._sizes import python_sizes

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ShapeValueFrozen(Check):
    code = "GA604"
    name = "shape-value-frozen"
    severity = Severity.ERROR
    remedy = "Use x.shape[i] as it is, without int(), and build tensors from others of the right size."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Frozen dimensions other than a first one, and sizes made Python numbers."""
        if subject.policy is None:
            return
        for size in frozen_sizes(subject):
            if not is_batch(subject, size.dimension):
                yield self.finding(size.message, place=size.place, node=size.node)
        for place, dimension in python_sizes(subject.policy):
            if not is_batch(subject, dimension):
                severity = unless_captured(subject, place)
                yield self.finding(f"Python makes a number of the size {dimension!r}", place=place, severity=severity)
