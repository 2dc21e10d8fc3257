"""A tensor is made of Python or NumPy data inside `forward`.

## What it does

Reports `torch.tensor`, `torch.as_tensor` and `torch.from_numpy` on Python and NumPy values while `forward` runs.

## Why it matters

Capture registers the result as a constant. That is harmless for `torch.tensor([0.0, 1.0])`, and wrong as soon as the
values come from the input, from a counter or from a generator: `torch.tensor(obs.mean().item())` is the example's mean
for ever.

## Example

```python
def forward(self, obs):
    scale = torch.tensor(obs.abs().mean().item())
    return self.net(obs / scale)
```

## Use instead

```python
def forward(self, obs):
    scale = obs.abs().mean()
    return self.net(obs / scale)
```

Real constants belong in a buffer: `self.register_buffer("limits", torch.tensor([0.0, 1.0]))`.

## References

- torch.jit.trace treats it as a constant: https://docs.pytorch.org/docs/stable/generated/torch.jit.trace.html
- torch.tensor copies data: https://docs.pytorch.org/docs/stable/generated/torch.tensor.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, failed, frozen_at

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject

# Where Python data that varies comes from. Without any of these, the tensor is a constant in eager too.
_SOURCES = ("item", "tolist", "numpy", "python-random", "numpy-random", "clock", "write-attribute")


class TensorRebuiltFromPython(Check):
    code = "GA115"
    name = "tensor-rebuilt-from-python"
    severity = Severity.ERROR
    remedy = "Compute it with tensor operations; keep real constants in buffers."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Tensors made of Python data, where forward has any Python data that may vary."""
        varying = any(events(subject, *_SOURCES))
        for event in events(subject, "rebuilt"):
            lost = frozen_at(subject, event.place) or (failed(subject) and varying)
            if lost or varying:
                severity = Severity.ERROR if lost else Severity.NOTE
                message = "this tensor is made of Python data, which the graph may hold as a constant"
                yield self.finding(message, place=event.place, severity=severity)
