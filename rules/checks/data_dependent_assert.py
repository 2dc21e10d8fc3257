"""An assertion checks the value of a tensor.

## What it does

Reports `assert` on tensors, and the argument validation of `torch.distributions`, which does the same inside the
library.

## Why it matters

On inputs that pass, the assertion changes nothing, so exporters drop it; on others, the deployed policy acts where the
original raised: a guard against broken sensors disappears exactly where it is needed. `graphaudit rewrite` keeps it as
a guard output, and `graphaudit.load` raises where it is true. Validation in `torch.distributions` alone makes
`torch.export` refuse most Stable-Baselines3 policies.

## Example

```python
def forward(self, obs):
    assert torch.isfinite(obs).all(), "bad sensor"
    return self.net(obs)
```

## Use instead

Make the check an output that the controller reads, or do it in the controller before the call:

```python
def forward(self, obs):
    healthy = torch.isfinite(obs).all(-1)
    return self.net(obs), healthy
```

Distributions take `validate_args=False`.

## References

- torch.distributions and `validate_args`: https://docs.pytorch.org/docs/stable/distributions.html
- https://github.com/facebookresearch/Detic/issues/107
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, same_line, unless_captured

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class DataDependentAssert(Check):
    code = "GA103"
    name = "data-dependent-assert"
    severity = Severity.ERROR
    remedy = "Return the check as an output, or do it before the call; give distributions validate_args=False."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Assertions on tensors (a note where a guard keeps them) and validation by distributions (a note)."""
        program = subject.capture.program if subject.capture is not None else None
        guards = program.interface.guards if program is not None else ()
        for event in events(subject, "bool"):
            if event.statement == "assert":
                severity = unless_captured(subject, event.place, Severity.WARNING)
                message = "this assertion on a tensor is not part of the deployed policy"
                guard = next((g for g in guards if g.place is not None and same_line(g.place, event.place)), None)
                if guard is not None:
                    severity = Severity.NOTE
                    message = (
                        f"this assertion becomes the guard output {guard.name}: the deployed policy raises GuardError"
                    )
                yield self.finding(message, place=event.place, severity=severity)
        for event in events(subject, "validation"):
            severity = unless_captured(subject, event.place)
            message = "torch.distributions validates its arguments here; the deployed policy does not"
            yield self.finding(message, place=event.place, severity=severity)
