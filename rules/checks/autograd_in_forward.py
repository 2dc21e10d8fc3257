"""`forward` computes gradients: autograd runs inside the policy.

## What it does

Reports calls of `torch.autograd.grad` and `backward` while `forward` runs, as energy-based policies, guided diffusion
and differentiable MPC make them.

## Why it matters

A deployment graph has no autograd. The backward pass must become ordinary operators in the captured graph. Capture can
do that where every operator between the value and its gradient is traceable; the exported graph is then larger (each
inner step holds a forward and a backward pass) and its second derivatives are not available any more. A policy that
runs under `torch.no_grad()` and does not re-enable gradients raises instead.

## Example

```python
def forward(self, obs, action):
    for _ in range(3):
        with torch.enable_grad():
            action = action.detach().requires_grad_(True)
            energy = self.energy(torch.cat([obs, action], -1)).sum()
            (slope,) = torch.autograd.grad(energy, action)
        action = action - 0.5 * slope
    return action.detach()
```

## Use instead

Where the inner network is small, write its gradient once and keep it in plain operators:

```python
def forward(self, obs, action):
    for _ in range(3):
        hidden = torch.cat([obs, action], -1) @ self.w1.T + self.b1
        slope = (torch.sigmoid(hidden) * self.w2) @ self.w1[:, obs.shape[-1]:]  # d softplus = sigmoid
        action = action - 0.5 * slope
    return action
```

## References

- torch.func.grad, which traces into the graph: https://docs.pytorch.org/docs/stable/generated/torch.func.grad.html
- Locally disabling gradients: https://docs.pytorch.org/docs/stable/notes/autograd.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, unless_captured

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class AutogradInForward(Check):
    code = "GA003"
    name = "autograd-in-forward"
    severity = Severity.ERROR
    remedy = "Use torch.func.grad, or write the gradient out in tensor operations."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every place where autograd runs inside forward."""
        for event in events(subject, "gradient"):
            severity = unless_captured(subject, event.place)
            yield self.finding("autograd runs inside forward", place=event.place, severity=severity)
