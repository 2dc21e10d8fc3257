"""How often a loop runs depends on the value of a tensor.

## What it does

Reports `while` on a tensor, loops that a tensor condition breaks out of, loops over `tensor.tolist()`, loops over
`range(int(tensor))`, `torch.while_loop`, and `while` inside TorchScript.

## Why it matters

A graph without loops holds a fixed number of steps. A tracer unrolls as many as the example needed, so other inputs
stop too early or run too long, with plausible results. Targets that run ONNX `Loop` can keep the loop; for the others
the trip count needs a bound, and the steps beyond an input's own count must change nothing.

## Example

```python
def forward(self, obs):
    action = self.net(obs)
    while action.norm() > 1.0:
        action = action * 0.5
    return action
```

## Use instead

A bounded loop whose steps are masked; twelve halvings cover norms up to 4096:

```python
def forward(self, obs):
    action = self.net(obs)
    for _ in range(12):
        action = torch.where(action.norm() > 1.0, action * 0.5, action)
    return action
```

## References

- https://github.com/pytorch/pytorch/issues/158366
- torch.while_loop: https://docs.pytorch.org/docs/stable/higher_order_ops/while_loop.html
- ONNX Loop: https://onnx.ai/onnx/operators/onnx__Loop.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, unless_captured
from graphaudit.rules.checks._loops import endless_loop, leaves_loop, scripted_loops
from graphaudit.rules.checks._source import functions

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class DataDependentLoop(Check):
    code = "GA104"
    name = "data-dependent-loop"
    severity = Severity.ERROR
    remedy = "Use a loop over a fixed range whose steps are masked with torch.where, or torch.while_loop."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every loop whose trip count is data."""
        own = functions(subject.policy)
        for event in events(subject, "bool"):
            if event.statement == "while" or leaves_loop(event) or endless_loop(own, event.place):
                yield self._loop(subject, event.place, "how often this loop runs depends on the value of a tensor")
        for event in events(subject, "tolist", "item"):
            statements = [f.statement(event.place) for f in own if event.place and f.covers(event.place)]
            if event.statement == "for" or any(isinstance(s, ast.For) for s in statements):
                yield self._loop(subject, event.place, "this loop runs over the values of a tensor")
        for event in events(subject, "control-flow-op"):
            if event.detail == "while_loop":
                yield self._loop(subject, event.place, "torch.while_loop stays a loop of the graph")
        for place in scripted_loops(subject.policy):
            yield self._loop(subject, place, "a while loop in TorchScript depends on the value of a tensor")

    def _loop(self, subject: Subject, place: object, message: str) -> Finding:
        return self.finding(message, place=place, severity=unless_captured(subject, place))  # type: ignore[arg-type]
