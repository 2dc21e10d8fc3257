"""The policy uses `torch.cond` or `torch.while_loop`.

## What it does

Names the structured control flow that the policy holds already, so that the report says what a target makes of it.

## Why it matters

`torch.export` keeps these operators as regions: both branches, or the loop's condition and body, stay in the graph.
That is the best form a data-dependent branch can have in PyTorch. It still has to reach the target: it becomes ONNX
`If` or `Loop`, which ONNX Runtime runs and several accelerators do not. `torch.jit.trace` and the legacy ONNX exporter
record only the arm that the example took.

## Example

```python
def forward(self, obs):
    return torch.cond(obs.norm() > 1.0, self.far, self.near, (obs,))
```

## Use instead

Nothing needs to change. For a target without `If` and `Loop`, compute both sides and select:

```python
def forward(self, obs):
    return torch.where(obs.norm() > 1.0, self.far(obs), self.near(obs))
```

## References

- torch.cond: https://docs.pytorch.org/docs/stable/generated/torch.cond.html
- ONNX If: https://onnx.ai/onnx/operators/onnx__If.html
- ONNX Loop: https://onnx.ai/onnx/operators/onnx__Loop.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, unless_captured

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ControlFlowOperator(Check):
    code = "GA004"
    name = "control-flow-operator"
    severity = Severity.NOTE
    remedy = "Nothing to do where the target runs If and Loop; else compute both sides and select with torch.where."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every call of a control-flow operator."""
        for event in events(subject, "control-flow-op"):
            severity = unless_captured(subject, event.place)
            yield self.finding(
                f"torch.{event.detail} stays a region of the graph", place=event.place, severity=severity
            )
