"""A tensor is written in place inside `forward`.

## What it does

Names in-place operators and assignments to slices and indices, on tensors made in `forward` and on its arguments.

## Why it matters

Graphs are functional: capture turns each write into a new value. That is exact in `torch.export`. ONNX then needs a
`ScatterND` or `ScatterElements`, which some accelerators run slowly or not at all. The legacy ONNX exporter gets
several kinds wrong: `index_add_` with duplicates, and writes through chained or transposed views.

## Example

```python
def forward(self, obs):
    grid = torch.zeros(6, 6)
    grid[obs[:, 0], obs[:, 1]] = 1.0
    return self.net(grid)
```

## Use instead

Nothing needs to change. A one-hot product does the same without a scatter:

```python
def forward(self, obs):
    rows, cols = F.one_hot(obs[:, 0], 6).float(), F.one_hot(obs[:, 1], 6).float()
    return self.net((rows.T @ cols).clamp(max=1.0))
```

## References

- Functionalisation: https://docs.pytorch.org/docs/stable/generated/torch.func.functionalize.html
- ONNX ScatterND: https://onnx.ai/onnx/operators/onnx__ScatterND.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, operator

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class InPlaceWrite(Check):
    code = "GA511"
    name = "in-place-write"
    severity = Severity.NOTE
    remedy = "Nothing to do: the graph makes a new tensor of it."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every write in place to a tensor that is no state."""
        for event in events(subject, "in-place"):
            yield self.finding(f"{operator(event)} writes in place; the graph makes a new tensor", place=event.place)
        for event in events(subject, "write-input"):
            yield self.finding("an argument is written in place; the graph makes a new tensor", place=event.place)
