"""`squeeze()` without a dimension, where a size may be 1.

## What it does

Finds `x.squeeze()` and `torch.squeeze(x)` in a policy with dimensions that may vary.

## Why it matters

`squeeze()` drops every dimension of size 1. For a batch of 1 it drops the batch as well: eager returns another rank
than for a batch of 2. The graph has one rank, so it agrees with eager for one of the two only.

## Example

```python
def forward(self, obs):
    return torch.sigmoid(self.value(obs).squeeze())
```

## Use instead

```python
def forward(self, obs):
    return torch.sigmoid(self.value(obs).squeeze(-1))
```

## References

- torch.squeeze, its warning about batches:
  https://docs.pytorch.org/docs/stable/generated/torch.squeeze.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Place, Severity
from graphaudit.rules.checks._events import unless_captured
from graphaudit.rules.checks._frozen import dynamic_names
from graphaudit.rules.checks._source import functions

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class SqueezeWithoutDim(Check):
    code = "GA607"
    name = "squeeze-without-dim"
    severity = Severity.WARNING
    remedy = "Name the dimension: squeeze(-1)."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Calls of squeeze without a dimension: in the source, and in the graph where there is no source."""
        if not dynamic_names(subject):
            return
        places: list[Place | None] = [*_in_source(subject)] or [*_in_graph(subject)]
        for place in places:
            severity = unless_captured(subject, place, Severity.WARNING)
            message = "squeeze() also drops a dimension that may vary whenever its size is 1"
            yield self.finding(message, place=place, severity=severity)


def _in_source(subject: Subject) -> Iterator[Place]:
    import torch

    for function in functions(subject.policy):
        for call in function.calls():
            if not (isinstance(call.func, ast.Attribute) and call.func.attr == "squeeze") or call.keywords:
                continue
            if len(call.args) == (1 if function.resolve(call.func) is torch.squeeze else 0):
                yield function.place(call)


def _in_graph(subject: Subject) -> Iterator[Place | None]:
    for node in subject.fx.select("aten.squeeze.default") if subject.fx else ():
        shape = node.inputs[0].shape if node.inputs and node.inputs[0] else None
        if shape is None or any(isinstance(s, str) for s in shape):
            yield node.place
