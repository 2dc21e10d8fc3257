"""`forward` writes to a parameter.

## What it does

Reports in-place writes to parameters during `forward` in eval mode: weight clipping, test-time adaptation, target
networks that follow inside `forward`.

## Why it matters

The write is lost in every exported model: each call starts from the weights of the export. The captured module itself
may have been changed by the capture run, so the saved weights need not even be those that were trained. A rewrite makes
such a parameter state of the bundle, as it does with buffers, unless a recurrent layer or a second name holds it, too.

## Example

```python
def forward(self, obs):
    self.layer.weight.data.clamp_(-0.5, 0.5)
    return self.layer(obs)
```

## Use instead

Clip where the weights are trained, or use the clipped weight without writing it back:

```python
def forward(self, obs):
    return F.linear(obs, self.layer.weight.clamp(-0.5, 0.5), self.layer.bias)
```

## References

- torch.export graph signature: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._state import writes

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ParameterMutation(Check):
    code = "GA506"
    name = "parameter-mutation"
    severity = Severity.ERROR
    remedy = "Change weights in training code, not in forward."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every write to a parameter."""
        for place, names, severity in writes(subject, "write-parameter"):
            message = f"parameter {names} is written; a model keeps the weights of its export"
            yield self.finding(message, place=place, severity=severity)
