"""A normaliser updates its statistics while the policy acts.

## What it does

Reports writes to running statistics (a buffer of a mean and variance pair, or their count) during `forward` in eval
mode.

## Why it matters

The policy drifts: the same observation gives another action later. Exporters differ in what becomes of it.
`torch.export` keeps in-place writes, both ONNX exporters drop them, so a deployed copy is frozen at whatever statistics
it had when it was exported. Usually freezing is what one wants, but that is the user's decision.

## Example

```python
def forward(self, obs):
    self.count += 1
    self.mean += (obs.mean(0) - self.mean) / self.count
    return self.net((obs - self.mean) / self.std)
```

## Use instead

```python
def forward(self, obs):
    if self.training:
        self.update(obs)
    return self.net((obs - self.mean) / self.std)
```

## References

- VecNormalize and `training=False`: https://stable-baselines3.readthedocs.io/en/master/guide/vec_envs.html#vecnormalize
- Mutated buffers in torch.export: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events
from graphaudit.rules.checks._modules import normalisers
from graphaudit.rules.checks._state import state_severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class NormaliserUpdatesInInference(Check):
    code = "GA504"
    name = "normaliser-updates-in-inference"
    severity = Severity.ERROR
    remedy = "Update the statistics in train mode only (if self.training), and hand the policy over in eval mode."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Writes to buffers of modules that hold a mean and a variance."""
        holders = {path for path, *_ in normalisers(subject.policy)}
        for event in events(subject, "write-buffer"):
            path, _, name = event.detail.rpartition(".")
            if (path or "the policy") in holders:
                severity = state_severity(subject, event)
                message = f"the statistic {name} changes while the policy acts"
                yield self.finding(message, place=event.place, severity=severity)
