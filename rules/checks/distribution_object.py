"""`forward` builds or returns a `torch.distributions` object.

## What it does

Names the distributions that `forward` makes, and those among its results.

## Why it matters

A distribution is a Python object, which no graph holds: only its tensors and the operators of the methods that are
called survive. With argument validation on (the default) its constructor and `log_prob` read tensor values, which
`torch.export` refuses: in a set of 24 refused RL policies, 21 could be captured once validation was off. A returned
distribution is deployed as its parameters (`loc` and `scale`, or `logits`), and the caller rebuilds it.

## Example

```python
def forward(self, obs):
    return torch.distributions.Normal(self.mu(obs), self.log_std.exp())
```

## Use instead

```python
def forward(self, obs):
    return self.mu(obs), self.log_std.exp()
```

For a deterministic policy return the mode (`self.mu(obs)`, or `logits.argmax(-1)`) and keep distributions for training.

## References

- torch.distributions and `validate_args`: https://docs.pytorch.org/docs/stable/distributions.html
- https://github.com/pytorch/pytorch/issues/108494
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events
from graphaudit.rules.checks._structure import containers

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class DistributionObject(Check):
    code = "GA011"
    name = "distribution-object"
    severity = Severity.NOTE
    remedy = "Return the distribution's parameters, or the action itself, and keep the object for training."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Distributions made in forward, and distributions among its results."""
        for event in events(subject, "distribution"):
            message = f"a {event.detail} object is made here; the graph keeps only its tensors"
            yield self.finding(message, place=event.place)
        if subject.policy is not None:
            from torch.distributions import Distribution

            for kind in containers(subject.policy.interface.out_spec):
                if isinstance(kind, type) and issubclass(kind, Distribution):
                    yield self.finding(f"forward returns a {kind.__name__}; the deployed policy returns its parameters")
