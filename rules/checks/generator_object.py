"""`forward` draws from a `torch.Generator` object.

## What it does

Reports draws with `generator=`, and says whether they differ from call to call.

## Why it matters

A generator is a Python object with state, and no graph holds it: the exporters drop it and keep a random operator
without the seed. If `forward` makes and seeds its generator itself, eager is deterministic, so the draws are constants,
and a random operator in their place is wrong. If the generator lives on the module, its state moves on in every call,
and that state is part of the policy.

`rewrite` makes noise inputs of the draws of a generator that the module holds. The manifest has its state, the bundle
draws from there with NumPy alone, and `policy.seed(7, generator="self.g")` starts it as `manual_seed(7)` does.

## Example

```python
def forward(self, obs):
    g = torch.Generator().manual_seed(7)
    return self.net(obs) + torch.randn(1, 2, generator=g)
```

## Use instead

A fixed perturbation is a buffer:

```python
def __init__(self):
    super().__init__()
    g = torch.Generator().manual_seed(7)
    self.register_buffer("offset", torch.randn(1, 2, generator=g))

def forward(self, obs):
    return self.net(obs) + self.offset
```

## References

- torch.Generator: https://docs.pytorch.org/docs/stable/generated/torch.Generator.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import draw_severity, events, operator

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class GeneratorObject(Check):
    code = "GA402"
    name = "generator-object"
    severity = Severity.WARNING
    remedy = "Draw once in __init__ into a buffer, or make the noise an argument of forward."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every draw from a generator object."""
        for event in events(subject, "generator"):
            severity = draw_severity(subject, event.place, Severity.WARNING)
            same = severity is Severity.WARNING
            how = (
                "draws the same numbers in every call: they are constants"
                if same
                else "draws other numbers in every call"
            )
            yield self.finding(f"{operator(event)} with this generator {how}", place=event.place, severity=severity)
