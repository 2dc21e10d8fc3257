"""`forward` uses Python's `random`.

## What it does

Reports draws from the `random` module and from `random.Random` objects while `forward` runs.

## Why it matters

Python draws while the graph is made, and never again. An ε-greedy policy tosses its coin once, at capture: the
deployed one always explores, or never. It is wrong without any sign of it, because every capture tool sees a plain
number.

## Example

```python
def forward(self, obs):
    if random.random() < self.epsilon:
        return torch.tensor([random.randrange(self.actions)])
    return self.q(obs).argmax(-1)
```

`rewrite` makes noise inputs of `random`, `uniform`, `gauss`, `randint`, `randrange`, `choice`, `choices`, `sample`,
`shuffle` and `expovariate`, which the bundle draws from Python's generator, or from the `random.Random` that the module
holds, whose state is in the manifest. The others are left to you.

## Use instead

Two uniform numbers are inputs, and the coin becomes a select:

```python
def forward(self, obs, coin, pick):
    explore = (pick * self.actions).long()
    return torch.where(coin < self.epsilon, explore, self.q(obs).argmax(-1))
```

## References

- random: https://docs.python.org/3/library/random.html
- torch.export, what is not a tensor is a constant: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import draw_severity, events

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class PythonRandom(Check):
    code = "GA403"
    name = "python-random"
    severity = Severity.ERROR
    remedy = "Give the random numbers to forward as arguments."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every draw from Python's generator: an error where it was seen to matter, else a warning."""
        for event in events(subject, "python-random"):
            severity = draw_severity(subject, event.place, Severity.WARNING)
            message = "Python's random draws here; a graph by itself would hold the number drawn at capture"
            yield self.finding(message, place=event.place, severity=severity)
