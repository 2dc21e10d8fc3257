"""The module lacks the normalisation of observations that `reference()` applies.

## What it does

Looks for a normalisation that turns the module into `reference()`: where the reference holds the module, by reading off
what it hands to it; otherwise by trying the tensors of the input's width that only the reference holds as mean and
variance (or deviation), with the usual epsilons and clips. A hypothesis is reported if it makes all outputs agree;
where none does and such tensors exist, they are named in a note.

## Why it matters

Training wrappers (`VecNormalize`, `EmpiricalNormalization`, `RunningMeanStd`) keep the statistics outside the network.
A network exported without them sees inputs on a scale it was never trained on, and fails without any error.

## Example

```python
def build():
    return actor  # the statistics stay behind in VecNormalize

def reference():
    return Sequential(Normalise(mean, var), actor)
```

## Use instead

```python
class Deployed(nn.Module):
    def __init__(self, actor, mean, var):
        super().__init__()
        self.actor = actor
        self.register_buffer("mean", mean)
        self.register_buffer("var", var)

    def forward(self, obs):
        return self.actor(((obs - self.mean) / torch.sqrt(self.var + 1e-8)).clamp(-10, 10))
```

## References

- Exported without VecNormalize: https://github.com/DLR-RM/stable-baselines3/issues/2126
- VecNormalize: https://stable-baselines3.readthedocs.io/en/master/guide/vec_envs.html#vecnormalize
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._reference import missing_step

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class NormalisationMissing(Check):
    code = "GA641"
    name = "normalisation-missing"
    severity = Severity.WARNING
    remedy = "Put the normaliser with its statistics into the module that is deployed."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The normalisation that explains how the module differs from reference()."""
        yield from missing_step(type(self), subject)
