"""A Python branch depends on the value of a tensor.

## What it does

Reports every `if`, `elif`, conditional expression, `and`, `or`, `not`, `max` and `min` that asks a tensor for its truth
while `forward` runs.

## Why it matters

A graph has no Python in it. Tracing tools keep the side that the example took, without a word: a safety stop recorded
in free space never stops. `torch.export` refuses the line. sb3-contrib's RecurrentPPO holds such an `if` on
`episode_starts`; the legacy ONNX exporter drops its reset, and half of the inputs come out wrong.

## Example

```python
def forward(self, ranges):
    if (ranges < self.stop_distance).any():
        return torch.zeros(ranges.shape[0], 2)
    return torch.tanh(self.net(ranges))
```

## Use instead

Compute both sides and select, for each row of the batch:

```python
def forward(self, ranges):
    stop = (ranges < self.stop_distance).any(-1, keepdim=True)
    return torch.where(stop, 0.0, torch.tanh(self.net(ranges)))
```

`max(a, b)` becomes `torch.maximum(a, b)`, `a and b` becomes `torch.logical_and(a, b)`, and a reset
`if done: h = zeros` becomes `h = h * (1 - done)`. Where only one side may run, `torch.cond` keeps the branch.

## References

- https://github.com/pytorch/pytorch/issues/93579
- torch.export, data-dependent control flow: https://docs.pytorch.org/docs/stable/export.html
- torch.cond: https://docs.pytorch.org/docs/stable/generated/torch.cond.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, unless_captured
from graphaudit.rules.checks._numbers import readers

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject

_ELSEWHERE = ("while", "assert")  # data-dependent-loop, data-dependent-assert
_WORDS = {
    "if": "this if depends",
    "elif": "this elif depends",
    "ifexp": "this conditional expression depends",
    "for": "this comprehension depends",
}


class DataDependentBranch(Check):
    code = "GA101"
    name = "data-dependent-branch"
    severity = Severity.ERROR
    remedy = "Compute both sides and select with torch.where, or use torch.cond."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every place where Python asks a tensor, or a number made of one, for its truth; loops and asserts apart."""
        for event in events(subject, "bool"):
            if event.statement not in _ELSEWHERE:
                message = f"{_describe(event.statement)} on the value of a tensor"
                yield self.finding(message, place=event.place, severity=unless_captured(subject, event.place))
        for function, number, _ in readers(subject, "item"):
            for node in ast.walk(function.tree):
                if isinstance(node, ast.If | ast.IfExp) and any(n is number for n in ast.walk(node.test)):
                    place = function.place(node.test)
                    message = f"{_describe('if')} on a number that came out of a tensor"
                    yield self.finding(message, place=place, severity=unless_captured(subject, place))


def _describe(statement: str) -> str:
    if statement.startswith("call:"):
        return f"Python's {statement.removeprefix('call:')}() decides"
    if statement in ("and", "or", "not"):
        return f"Python's {statement} decides"
    return _WORDS.get(statement, "Python decides")
