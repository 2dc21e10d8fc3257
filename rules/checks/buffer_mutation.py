"""`forward` writes to a buffer.

## What it does

Reports writes to registered buffers during `forward` in eval mode, and says whether later results depend on them. For
batch norm handed over in train mode it notes the buffers that train mode would write.

## Why it matters

A buffer that is written is state: the next call sees another value. `torch.export` keeps the write as an extra output;
both ONNX exporters drop it without a word, and the deployed policy starts every step from the initial buffer. An
integrator never integrates, a recurrent policy has no memory, and the first step is right.

## Example

```python
def forward(self, err):
    self.integral.add_(0.1 * err).clamp_(-1, 1)
    return self.kp * err + self.ki * self.integral
```

## Use instead

State comes in and goes out:

```python
def forward(self, err, integral):
    integral = (integral + 0.1 * err).clamp(-1, 1)
    return self.kp * err + self.ki * integral, integral
```

## References

- Mutated buffers in torch.export: https://docs.pytorch.org/docs/stable/export.html
- ONNX models are functions of their inputs: https://onnx.ai/onnx/repo-docs/IR.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._modules import training_modules
from graphaudit.rules.checks._state import writes

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class BufferMutation(Check):
    code = "GA505"
    name = "buffer-mutation"
    severity = Severity.ERROR
    remedy = "Make the state an argument and a result of forward."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every write to a buffer; what train mode would write is a note."""
        for place, names, severity in writes(subject, "write-buffer"):
            lost = "the next call depends on it" if severity is Severity.ERROR else "no result depends on it"
            message = f"buffer {names} is written; {lost}, and a model keeps no buffers between calls"
            yield self.finding(message, place=place, severity=severity)
        for name, module in training_modules(subject.policy):
            if _updates_statistics(module):
                message = f"{name} would update its running statistics in train mode; it is deployed in eval mode"
                yield self.finding(message, node=name, severity=Severity.NOTE)


def _updates_statistics(module: object) -> bool:
    from torch.nn.modules.batchnorm import _NormBase

    return isinstance(module, _NormBase) and module.running_mean is not None
