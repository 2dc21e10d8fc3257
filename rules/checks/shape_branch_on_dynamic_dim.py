"""A branch depends on a size that may vary.

## What it does

Finds `if`, `while`, `assert` and conditional expressions in `forward` whose condition reads a dimension that
`dynamic_shapes` declares to vary.

## Why it matters

Capture takes both sides and lets the size select. Where the sides have other shapes, that cannot be: a graph would hold
the side that the example's size takes. `torch.export` guards that choice when it runs the program itself; an ONNX model
carries no guards, so the same specialisation is loud in one and silent in the other. A statistics step that is skipped
for a batch of 2 is missing for a batch of 64.

## Example

```python
dynamic_shapes = ({0: "batch"},)

def forward(self, x):
    if x.shape[0] > 3:
        x = x - x.mean(0, keepdim=True)
    return self.net(x)
```

## Use instead

One formula for all sizes, or a policy for each:

```python
def forward(self, x):
    return self.net(x - self.mean)
```

## References

- torch.export, dynamic shapes and guards: https://docs.pytorch.org/docs/stable/export.html#expressing-dynamism
- https://github.com/huggingface/transformers/issues/17773
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import unless_captured
from graphaudit.rules.checks._sizes import sizes

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ShapeBranchOnDynamicDim(Check):
    code = "GA112"
    name = "shape-branch-on-dynamic-dim"
    severity = Severity.WARNING
    remedy = "Use one formula for all sizes, or deploy one policy for each side of the branch."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Conditions of forward that read a dimension that may vary."""
        known = sizes(subject.policy)
        for node in ast.walk(known.function.tree) if known else ():
            if known and isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
                for dimension in known.varying(node.test)[:1]:
                    place = known.function.place(node.test)
                    masked = subject.capture is not None and subject.capture.predicated
                    severity = unless_captured(subject, place, Severity.NOTE if masked else Severity.WARNING)
                    message = f"the graph holds the side that the example's size of {dimension!r} takes"
                    if severity is Severity.NOTE:
                        message = f"the size of {dimension!r} decides; both sides are in the graph"
                    yield self.finding(message, place=place, severity=severity)
