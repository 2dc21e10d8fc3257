"""A Python loop runs over the rows of a batch whose size may vary.

## What it does

Reports `for row in batch` and `for i in range(batch.shape[0])` where that dimension is declared dynamic, or had
different sizes in the inputs tried.

## Why it matters

A loop over a batch is unrolled while the graph is made: the example's three agents become three copies of the network,
and a fourth agent is ignored or refused. Tracers say "Iterating over a tensor might cause the trace to be incorrect"
and go on. The unrolled graph is also as many times larger and slower as the batch has rows.

## Example

```python
def forward(self, obs):
    return torch.stack([torch.softmax(self.net(row), -1) for row in obs])
```

## Use instead

Layers take batches as they are; `torch.vmap` does the same for functions that do not:

```python
def forward(self, obs):
    return torch.softmax(self.net(obs), -1)
```

## References

- torch.vmap: https://docs.pytorch.org/docs/stable/generated/torch.vmap.html
- torch.export, dynamic shapes: https://docs.pytorch.org/docs/stable/export.html#expressing-dynamism
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import unless_captured
from graphaudit.rules.checks._iteration import iterations

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class BatchLoop(Check):
    code = "GA109"
    name = "batch-loop"
    severity = Severity.WARNING
    remedy = "Apply the layers to the whole batch at once, or use torch.vmap."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Loops over a dimension that may vary and is no time axis."""
        for loop in iterations(subject):
            if loop.dynamic and loop.over_batch:
                severity = unless_captured(subject, loop.place, Severity.WARNING)
                message = f"this loop is unrolled for the example's rows, but {loop.dimension!r} may vary"
                yield self.finding(message, place=loop.place, severity=severity)
