"""An optional argument is None in the example, so the graph has no input for it.

## What it does

Reports arguments of `forward` that are None in the example. If `inputs(seed)` gives tensors there, graphaudit calls the
policy with None and with zeros. Where both give the same, the argument becomes an input of the model, zeros stand for
None in the bundle, and the finding is a note. Where they differ, the calls need an input that the model does not have,
and the finding is an error.

## Why it matters

Python decides with `if state is None` while capture runs, so only that side is in the graph. A recurrent policy whose
example passes no state is deployed as a policy that starts from zeros in every step: it runs, and it has no memory.

## Example

```python
def forward(self, obs, h=None):
    y, h = self.gru(obs.unsqueeze(0), h)
    return self.head(y[0]), h

def example_inputs():
    return (torch.zeros(1, 4), None)
```

## Use instead

Always pass the state; zeros mean the start of an episode:

```python
def example_inputs():
    return (torch.zeros(1, 4), torch.zeros(1, 1, 6))
```

## References

- torch.export, None is a constant input: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._inputs import drawn, leaves, parameter_of

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class OptionalInputSpecialised(Check):
    code = "GA016"
    name = "optional-input-specialised"
    severity = Severity.WARNING
    remedy = "Give the argument a tensor in example_inputs(), so that it becomes an input of the model."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """One finding for each argument that is None in the example."""
        policy = subject.policy
        if policy is None:
            return
        for path in (f.path for f in policy.interface.fixed if f.value is None):
            name = parameter_of(policy, path)
            given = any(v is not None for args in drawn(policy) for at, v in leaves(args).items() if _within(at, path))
            message = f"{name} is None in the example, so the model has no input for it"
            if given:
                message += "; inputs(seed) gives it a value, and zeros are not known to do what None does"
            yield self.finding(message, node=path, severity=Severity.ERROR if given else None)
        for name in dict.fromkeys(parameter_of(policy, path) for path in policy.optional):
            message = f"{name} is None in the example and an input of the model; None stands for zeros"
            yield self.finding(message, node=name, severity=Severity.NOTE)


def _within(path: str, argument: str) -> bool:
    """Whether a path is that of the argument, or of a part of it."""
    return path == argument or path.startswith(f"{argument}[")
