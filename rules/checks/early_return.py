"""`forward` returns early, depending on the value of a tensor.

## What it does

Reports a `return` under a condition on a tensor: the statements after it run for some inputs only.

## Why it matters

All of a graph's nodes run in every call. A return inside a branch means that everything after it must be computed
under a mask and the result selected at the end; inside a loop it also decides how many times the loop runs. A tracer
stops where the example returned, and the rest of the policy is missing from the model.

## Example

```python
def forward(self, obs):
    for candidate in self.propose(obs).unbind(0):
        if candidate.abs().max() < 0.6:
            return candidate
    return candidate * 0.1
```

## Use instead

Compute all candidates and take the first that fits:

```python
def forward(self, obs):
    candidates = self.propose(obs)
    fits = candidates.abs().amax(-1) < 0.6
    first = fits.float().argmax(0)
    return torch.where(fits.any(), candidates[first], candidates[-1] * 0.1)
```

## References

- https://github.com/pytorch/pytorch/issues/93579
- torch.argmax (of equal maxima, ONNX ArgMax takes the first): https://onnx.ai/onnx/operators/onnx__ArgMax.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, unless_captured

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class EarlyReturn(Check):
    code = "GA102"
    name = "early-return"
    severity = Severity.ERROR
    remedy = "Compute every candidate result and select one with torch.where at the end."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every tensor condition whose body returns."""
        for event in events(subject, "bool"):
            if "return" in event.inside:
                severity = unless_captured(subject, event.place)
                message = "whether forward returns here depends on the value of a tensor"
                yield self.finding(message, place=event.place, severity=severity)
