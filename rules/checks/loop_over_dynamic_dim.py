"""A Python loop runs over a dimension whose size may vary.

## What it does

Reports loops over the time steps of a sequence, or over any other dimension that is declared dynamic or had different
sizes in the inputs tried. Loops over a batch have a finding of their own (`batch-loop`).

## Why it matters

The loop is unrolled for the example's length. Longer sequences are cut, shorter ones raise, or the capture refuses the
dimension altogether.

## Example

```python
def forward(self, seq, h):
    for t in range(seq.shape[1]):
        h = self.cell(seq[:, t], h)
    return self.head(h)
```

## Use instead

A recurrent layer loops inside one operator, whatever the length:

```python
def forward(self, seq, h):
    out, h = self.gru(seq, h)
    return self.head(out[:, -1])
```

For a cell of your own, `torch.while_loop` and `scan` keep the loop in the graph.

## References

- torch.export, dynamic shapes: https://docs.pytorch.org/docs/stable/export.html#expressing-dynamism
- ONNX Scan: https://onnx.ai/onnx/operators/onnx__Scan.html
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


class LoopOverDynamicDim(Check):
    code = "GA110"
    name = "loop-over-dynamic-dim"
    severity = Severity.WARNING
    remedy = "Use a layer or operator that loops inside (nn.GRU, torch.cumsum, torch.while_loop), or fix the length."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Loops over a dimension that may vary and is no batch, or whose name is not known."""
        for loop in iterations(subject):
            if loop.dynamic and not loop.over_batch:
                severity = unless_captured(subject, loop.place, Severity.WARNING)
                what = f"{loop.dimension!r} may vary" if loop.dimension else "their number varies between inputs"
                message = f"this loop is unrolled for the example's steps, but {what}"
                yield self.finding(message, place=loop.place, severity=severity)
