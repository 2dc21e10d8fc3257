"""`forward` draws random numbers on one side of a branch only, or in a loop whose length is data.

## What it does

Reports draws under a condition that a graph decides when it runs.

## Why it matters

A graph computes both sides and so draws on both in every call, where the Python policy draws on one. Each action has
the right distribution, but the draws after it are others of the sequence: a seed that reproduced an episode in training
gives another one on the target. The bundle says `replay: distribution`, and every step is held to it by two-sample
tests in place of a comparison draw by draw.

## Example

```python
def forward(self, obs):
    if random.random() < self.epsilon:
        return torch.randint(self.actions, (1,))
    return self.q(obs).argmax(-1)
```

## Use instead

Draw in every call, and select:

```python
def forward(self, obs):
    coin, pick = torch.rand(()), torch.randint(self.actions, (1,))
    return torch.where(coin < self.epsilon, pick, self.q(obs).argmax(-1))
```

## References

- docs/randomness.md, what is replayed and how it was measured
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class DrawOnOneSide(Check):
    code = "GA406"
    name = "draw-on-one-side"
    severity = Severity.WARNING
    remedy = "Draw before the branch, in every call, and select afterwards; then a seed replays exactly."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every line that draws under a mask."""
        for place in subject.capture.shifted if subject.capture is not None else ():
            message = "draws on one path only; the graph always draws, so a seed does not replay the policy's sequence"
            yield self.finding(message, place=place)
