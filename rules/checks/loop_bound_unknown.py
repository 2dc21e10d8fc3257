"""A loop that depends on data has no bound in the source.

## What it does

Reports `while` loops on tensors that no counter limits, `while True` with an exit that a tensor decides, and loops over
a range of a tensor's value that capture found no bound of. It says how often eager ran the loop on the inputs tried.

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
from graphaudit.findings import Finding, Place, Severity
from graphaudit.rules.checks._events import events, same_line, unless_captured
from graphaudit.rules.checks._loops import bounded, endless_loop, unbounded_regions
from graphaudit.rules.checks._refusals import refusals
from graphaudit.rules.checks._source import functions

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class LoopBoundUnknown(Check):
    code = "GA106"
    name = "loop-bound-unknown"
    severity = Severity.ERROR
    remedy = "Say how often it runs at most: `# graphaudit: loop-bound=N` on its line, --loop-bound N, or a counter."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Loops on tensors without a counter in their condition."""
        own = functions(subject.policy)
        named: list[Place | None] = []
        for event in events(subject, "bool"):
            unbounded = event.statement == "while" and not bounded(own, event.place)
            if unbounded or (event.statement != "while" and endless_loop(own, event.place)):
                named.append(event.place)
                yield self._unbounded(subject, event.place, unless_captured(subject, event.place))
        for place in (*(place for _, place in refusals(subject, self.name)), *unbounded_regions(subject)):
            if not any(same_line(place, known) for known in named):
                named.append(place)
                yield self._unbounded(subject, place, Severity.ERROR)

    def _unbounded(self, subject: Subject, place: Place | None, severity: Severity) -> Finding:
        message = "nothing in the source bounds how often this loop runs"
        passes = subject.observation.passes if subject.observation is not None else {}
        most = max((count for at, count in passes.items() if same_line(at, place)), default=None)
        if most is not None:
            message += f"; on the inputs tried eager ran it up to {most} time{'' if most == 1 else 's'}"
        return self.finding(message, place=place, severity=severity)
