"""A Python loop over a tensor is unrolled in the graph.

## What it does

Names loops over the rows of a tensor whose number does not vary: `for row in tensor`, and `for k in range(n)` where `k`
indexes a buffer.

## Why it matters

The unrolled graph is right, and it is larger: each row adds a copy of the loop's body. A rollout of 4 steps is
nothing to worry about; with 128 steps of an LSTM the graph has thousands of nodes, takes long to compile and runs
slower than one operator that loops inside.

## Example

```python
def forward(self, obs, done, h, c):
    outs = []
    for x, d in zip(obs, done):
        y, (h, c) = self.lstm(x.unsqueeze(0), (h * (1 - d), c * (1 - d)))
        outs.append(y)
    return torch.cat(outs), h, c
```

## Use instead

Deploy a single step and let the controller loop:

```python
def forward(self, obs, done, h, c):
    y, (h, c) = self.lstm(obs.unsqueeze(0), (h * (1 - done), c * (1 - done)))
    return y[0], h, c
```

## References

- torch.Tensor.unbind: https://docs.pytorch.org/docs/stable/generated/torch.unbind.html
- torch.export unrolls Python loops: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._iteration import iterations

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class LoopOverStaticDim(Check):
    code = "GA111"
    name = "loop-over-static-dim"
    severity = Severity.NOTE
    remedy = "Nothing to do for a few rows; for many, use an operator that loops inside."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Loops over the rows of a tensor whose number is fixed."""
        for loop in iterations(subject):
            if not loop.dynamic:
                yield self.finding(f"this loop over {loop.length} rows is unrolled", place=loop.place)
