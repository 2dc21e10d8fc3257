"""`forward` returns a Python number or a NumPy array, or a tensor made of one.

## What it does

Reports Python numbers and NumPy arrays among the results, and `return torch.tensor(...)` of Python data.

## Why it matters

A Python number in the result is a constant of the graph unless capture kept it a tensor all the way. The historic
symptom of the second form is a deployed agent that always takes the same action: `.item()` reads the action of the
example, `torch.tensor` wraps it, and the graph returns it for ever. Where capture keeps the value, the deployed policy
returns a 0-dimensional tensor in place of the number.

## Example

```python
def forward(self, obs):
    action = self.q(obs).argmax(-1).item()
    return torch.tensor(action)
```

## Use instead

```python
def forward(self, obs):
    return self.q(obs).argmax(-1)
```

## References

- torch.tensor of a Python value is a constant under tracing:
  https://docs.pytorch.org/docs/stable/generated/torch.jit.trace.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, unless_captured
from graphaudit.rules.checks._source import functions

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class PythonOutput(Check):
    code = "GA015"
    name = "python-output"
    severity = Severity.NOTE
    remedy = "Return the tensor; let the caller make a number of it."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Numbers among the results, and returned tensors that were rebuilt from Python data."""
        if subject.policy is None:
            return
        for path in subject.policy.interface.python_outputs:
            yield self.finding(f"result{path} is no tensor; the model returns one for it", node=path)
        own = functions(subject.policy)
        for event in events(subject, "rebuilt"):
            statements = [f.statement(event.place) for f in own if event.place and f.covers(event.place)]
            if any(isinstance(s, ast.Return) for s in statements):
                severity = unless_captured(subject, event.place)
                message = "forward returns a tensor made of Python data"
                yield self.finding(message, place=event.place, severity=severity)
