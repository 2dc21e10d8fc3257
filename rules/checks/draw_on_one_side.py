"""`forward` draws random numbers on one side of a branch only, or in a loop whose length is data.

## What it does

Reports draws under a condition that a graph decides when it runs.

## Why it matters

A graph computes both sides and so draws on both in every call, where the Python policy draws on one. The draws after it
would be others of the sequence: a seed that reproduced an episode in training would give another one on the target.

`rewrite` gives the model an output that says whether the policy makes such a draw. Where it does not, graphaudit's
loader takes the draw back and draws what comes after it from there, with another run of the model where that changes
anything. So a seed replays exactly. A consumer that draws the noise itself has to do the same, or lives with another
sequence of the same distribution.

## Example

```python
def forward(self, obs):
    if random.random() < self.epsilon:
        return torch.randint(self.actions, (1,))
    return self.q(obs).argmax(-1)
```

## Use instead

Draw in every call, and select; then no consumer has to take anything back:

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
    severity = Severity.NOTE
    remedy = "Draw before the branch, in every call, and select afterwards; then no draw has to be taken back."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every line that draws under a mask."""
        for place in subject.capture.one_sided if subject.capture is not None else ():
            message = "draws on one path only; the graph always draws, and an output says when the draw is taken back"
            yield self.finding(message, place=place)
