"""A Python argument decides how many steps a loop has.

## What it does

Finds `range(...)` over an argument of `forward` that is a Python number.

## Why it matters

The graph has as many steps as the example's number said: the argument is no input of the model. If `inputs(seed)`
draws other counts, graphaudit makes the number an input. Then the finding is a note: where the target has no loops, as
many masked passes are made as the largest number needs that was seen, and a guard says where there would be more.

## Example

```python
def forward(self, x, n_steps: int):
    for _ in range(n_steps):
        x = x + 0.1 * torch.tanh(self.refine(x))
    return x
```

## Use instead

Fix the count where the policy is built, or mask a fixed number of steps with a count that is a tensor:

```python
def forward(self, x, n_steps: Tensor):
    for k in range(8):
        x = torch.where(k < n_steps, x + 0.1 * torch.tanh(self.refine(x)), x)
    return x
```

## References

- https://github.com/pytorch/pytorch/issues/24235
- torch.export, Python arguments are constants: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._inputs import parameter_of, values_at
from graphaudit.rules.checks._source import functions

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.interface import Fixed


class LoopCountFromArgument(Check):
    code = "GA108"
    name = "loop-count-from-argument"
    severity = Severity.WARNING
    remedy = "Fix the count where the policy is built, or mask a fixed number of steps with a tensor."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Ranges over an argument that is a Python number in the example."""
        policy = subject.policy
        if policy is None:
            return
        counts: dict[str, Fixed | None] = {}
        counts |= {parameter_of(policy, f.path): f for f in policy.interface.fixed if type(f.value) is int}
        counts |= {parameter_of(policy, s.path): None for s in policy.interface.inputs if s.path in policy.numbers}
        for function in functions(policy) if counts else ():
            if function.owner is not policy.module or function.name != "forward":
                continue
            for call in function.calls():
                if function.resolve(call.func) is not range:
                    continue
                for name in (n.id for n in ast.walk(call) if isinstance(n, ast.Name) and n.id in counts):
                    fixed = counts[name]
                    if fixed is None:
                        message = f"{name} is an input of the model; masked passes stop at the most on the inputs tried"
                        yield self.finding(message, place=function.place(call), severity=Severity.NOTE)
                        continue
                    varies = any(v != fixed.value for v in values_at(policy, fixed.path))
                    yield self.finding(
                        f"the graph has the {fixed.value} steps of the example; {name} is no input of the model",
                        place=function.place(call),
                        severity=Severity.ERROR if varies else None,
                    )
