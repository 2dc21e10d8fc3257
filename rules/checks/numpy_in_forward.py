"""`forward` computes with NumPy.

## What it does

Reports tensors that become NumPy arrays in `forward`, and draws from `numpy.random`.

## Why it matters

NumPy computes while the graph is made. Most traces keep its result as a constant, and the policy ignores its
observation from then on. `torch.export` in its default mode refuses `.numpy()`; with strict capture some NumPy
functions are translated to torch ones.

## Example

```python
def forward(self, obs):
    a = obs.detach().numpy()
    a = np.sign(a) * np.log1p(np.abs(a))
    return self.net(torch.from_numpy(np.clip(a, -2.0, 2.0)))
```

## Use instead

```python
def forward(self, obs):
    a = torch.sign(obs) * torch.log1p(obs.abs())
    return self.net(a.clamp(-2.0, 2.0))
```

## References

- torch.Tensor.numpy: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html
- torch.compile and NumPy: https://docs.pytorch.org/docs/stable/torch.compiler_faq.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import draw_severity, events, unless_captured

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class NumpyInForward(Check):
    code = "GA404"
    name = "numpy-in-forward"
    severity = Severity.ERROR
    remedy = "Use the torch function of the same name."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every conversion to NumPy, and every draw from its generators."""
        for event in events(subject, "numpy"):
            severity = unless_captured(subject, event.place)
            yield self.finding("a tensor becomes a NumPy array here", place=event.place, severity=severity)
        for event in events(subject, "numpy-random"):
            severity = draw_severity(subject, event.place, Severity.WARNING)
            message = "numpy.random draws here; a graph by itself would hold the numbers that it drew at capture"
            yield self.finding(message, place=event.place, severity=severity)
