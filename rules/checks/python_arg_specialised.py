"""An argument of `forward` is a Python value, which the graph holds as a constant.

## What it does

Reports numbers, flags and strings among the example's arguments. If `inputs(seed)` gives other values than the example,
the deployed policy would be wrong on them, and the finding is an error.

## Why it matters

A graph's inputs are tensors. `deterministic=True` selects its side of the code while the graph is made, and is no input
of the model: the model is deterministic. `torch.export` checks such values at run time and raises; an ONNX model has
no such guard.

## Example

```python
def forward(self, obs, temperature: float):
    return torch.softmax(self.net(obs) / temperature, -1)

def example_inputs():
    return (torch.zeros(1, 4), 0.5)
```

## Use instead

Numbers that vary are tensors; for a flag, deploy the policy for the value that is wanted:

```python
def example_inputs():
    return (torch.zeros(1, 4), torch.tensor(0.5))
```

## References

- torch.export, Python arguments are constants: https://docs.pytorch.org/docs/stable/export.html
- https://github.com/DLR-RM/stable-baselines3/issues/1349
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._inputs import parameter_of, values_at

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class PythonArgSpecialised(Check):
    code = "GA601"
    name = "python-arg-specialised"
    severity = Severity.WARNING
    remedy = "Make a number that varies a tensor; deploy one policy for each value of a flag."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """One finding for each Python value among the arguments."""
        policy = subject.policy
        for path in policy.numbers if policy else ():
            message = f"{parameter_of(policy, path)} varies in inputs(seed), so it is an input of the model"
            yield self.finding(message, node=path, severity=Severity.NOTE)
        for fixed in policy.interface.fixed if policy else ():
            if policy is None or fixed.value is None:
                continue
            others = [v for v in values_at(policy, fixed.path) if v != fixed.value]
            message = f"{parameter_of(policy, fixed.path)} is {fixed.value!r} in the graph and no input of the model"
            if others:
                message += f"; inputs(seed) also gives {others[0]!r}"
            numeric = isinstance(fixed.value, int | float | complex) and not isinstance(fixed.value, bool)
            severity = Severity.ERROR if others else Severity.WARNING if numeric else Severity.NOTE
            yield self.finding(message, node=fixed.path, severity=severity)
