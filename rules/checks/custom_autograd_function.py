"""`forward` applies a custom `torch.autograd.Function`.

## What it does

Finds `Function.apply(...)` in the functions that `forward` runs, where the class is a `torch.autograd.Function`.

## Why it matters

Capture records the operators that the function's own `forward` runs and drops its `backward`. The deployed policy is
right as long as that `forward` is made of tensor operations: straight-through estimators and gradient reversal are.
A function that calls a compiled extension (CUDA, Triton, C++) shows up as a custom operator or cannot be captured.

## Example

```python
class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits):
        return (logits > 0).float()

    @staticmethod
    def backward(ctx, grad):
        return grad

def forward(self, obs):
    return StraightThrough.apply(self.net(obs))
```

## Use instead

In the policy that is deployed, call the operation itself:

```python
def forward(self, obs):
    return (self.net(obs) > 0).float()
```

## References

- Extending torch.autograd: https://docs.pytorch.org/docs/stable/notes/extending.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import unless_captured
from graphaudit.rules.checks._source import functions

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class CustomAutogradFunction(Check):
    code = "GA005"
    name = "custom-autograd-function"
    severity = Severity.NOTE
    remedy = "Make sure that the function's forward is made of tensor operations; its backward is not deployed."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Calls of `apply` on a subclass of `torch.autograd.Function`."""
        for function in functions(subject.policy):
            for call in function.calls():
                if not (isinstance(call.func, ast.Attribute) and call.func.attr == "apply"):
                    continue
                cls = function.resolve(call.func.value)
                if isinstance(cls, type) and _is_autograd_function(cls):
                    place = function.place(call)
                    message = f"{cls.__name__} is a custom autograd function; only its forward reaches the graph"
                    yield self.finding(message, place=place, severity=unless_captured(subject, place))


def _is_autograd_function(cls: type) -> bool:
    from torch.autograd import Function

    return issubclass(cls, Function)
