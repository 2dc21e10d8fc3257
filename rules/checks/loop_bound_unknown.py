"""A loop that depends on data has no bound in the source.

## What it does

Reports `while` loops on tensors that no counter limits, and `while True` with an exit that a tensor decides.

## Why it matters

Without a bound the loop cannot be unrolled, and only a target that runs `Loop` can take it. It also means that one
control step may take any time at all, or never end, on an input nobody tried: a fixed-point iteration whose map is a
contraction for most weights is the classic case.

## Example

```python
def forward(self, obs):
    z = torch.zeros_like(obs)
    while True:
        new = torch.tanh(self.w(z) + obs)
        if (new - z).abs().max() < 1e-4:
            return new
        z = new
```

## Use instead

State the bound, and say when it was not enough:

```python
def forward(self, obs):
    z = torch.zeros_like(obs)
    for _ in range(32):
        new = torch.tanh(self.w(z) + obs)
        settled = (new - z).abs().max() < 1e-4
        z = torch.where(settled, z, new)
    return z, settled
```

## References

- https://github.com/pytorch/pytorch/issues/158366
- ONNX Loop: https://onnx.ai/onnx/operators/onnx__Loop.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, unless_captured
from graphaudit.rules.checks._loops import bounded, endless_loop
from graphaudit.rules.checks._refusals import refusals
from graphaudit.rules.checks._source import functions

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class LoopBoundUnknown(Check):
    code = "GA106"
    name = "loop-bound-unknown"
    severity = Severity.ERROR
    remedy = "Loop over a range that is certainly long enough, and return whether it was."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Loops on tensors without a counter in their condition."""
        for reason, place in refusals(subject, self.name):
            yield self.finding(reason, place=place)
        own = functions(subject.policy)
        for event in events(subject, "bool"):
            unbounded = event.statement == "while" and not bounded(own, event.place)
            if unbounded or (event.statement != "while" and endless_loop(own, event.place)):
                severity = unless_captured(subject, event.place)
                message = "nothing in the source bounds how often this loop runs"
                yield self.finding(message, place=event.place, severity=severity)
