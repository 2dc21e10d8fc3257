"""`forward` computes gradients: autograd runs inside the policy.

## What it does

Reports calls of `torch.autograd.grad`, `backward` and the transforms of `torch.func` while `forward` runs, as
energy-based policies, guided diffusion, safety filters and differentiable MPC make them.

## Why it matters

A deployment graph has no autograd, and torch.export refuses it. Capture traces the backward pass into the graph as
ordinary operators: forward runs below autograd first, gradients of gradients and of weights included, and the finding
is a note. The graph is larger, because each inner step holds a forward and a backward pass. The finding is an error
where that cannot be done: an operator without a formula, forward-mode derivatives at a batch size that varies, or a
size that torch.func makes a constant, as it does with slices of rows under `vmap`. A policy that leaves it to its
caller to have gradients on runs with them on here, and must do so wherever else it runs in PyTorch.

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
