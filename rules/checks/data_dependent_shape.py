"""The shape of a tensor depends on values.

## What it does

Reports operators whose result has as many elements as the data says: boolean-mask indexing, `nonzero`, `unique`,
`masked_select`, `repeat_interleave` with a tensor of counts.

## Why it matters

ONNX Runtime runs such graphs. Compilers for accelerators plan memory for fixed shapes and refuse them, or fall back to
the host: Ascend's offline compiler and TensorRT's static engines are among them. If an output of the policy has such a
shape, there is no static model with the same interface, and the interface has to change.

## Example

```python
def forward(self, entities, valid):
    h = torch.relu(self.enc(entities))
    return h[valid].mean(0)
```

## Use instead

Keep all rows and weigh them:

```python
def forward(self, entities, valid):
    h = torch.relu(self.enc(entities))
    w = valid.unsqueeze(-1).to(h.dtype)
    return (h * w).sum(0) / w.sum(0)
```

Where a variable number of results is the point, return all of them with a mask, or the best k with `torch.topk`.

## References

- https://github.com/NVIDIA/TensorRT/issues/4010
- ONNX NonZero: https://onnx.ai/onnx/operators/onnx__NonZero.html
- torch.export, data-dependent shapes: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, explained, operator, unless_captured
from graphaudit.rules.checks._nodes import takes_size_from_data

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class DataDependentShape(Check):
    code = "GA118"
    name = "data-dependent-shape"
    severity = Severity.ERROR
    remedy = "Keep every element and carry a mask, or take a fixed number with torch.topk."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every operator whose result's shape depended on values."""
        for event in events(subject, "data-shape"):
            severity = unless_captured(subject, event.place)
            what = "indexing with a mask" if operator(event) == "bool-mask-index" else operator(event)
            message = f"the values decide the shape of what {what} gives"
            yield self.finding(message, place=event.place, severity=severity)
        for node in subject.fx.nodes if subject.fx is not None else ():
            if takes_size_from_data(node) and not explained(subject, node.place, ("data-shape",)):
                message = f"a value decides the shape of what {node.op.split('.')[1]} gives"
                yield self.finding(message, place=node.place, node=node.name, severity=Severity.NOTE)
