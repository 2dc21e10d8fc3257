"""A normaliser updates its statistics while the policy acts.

## What it does

Reports writes to running statistics (a buffer of a mean and variance pair, or their count) during `forward` in eval
mode, and, for a policy that is handed over in train mode, those that only train mode makes: a bundle has the statistics
frozen.

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
from graphaudit.rules.checks._modules import named_modules, normalisers
from graphaudit.rules.checks._state import state_severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.policy import Policy


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
        acting = {event.detail for event in events(subject, "write-buffer")}
        for name in _updated_in_training(subject.policy, holders):
            if name in acting:
                continue
            message = f"train mode would update the statistic {name}; the deployed policy has it frozen"
            yield self.finding(message, node=name, severity=Severity.WARNING)


def _updated_in_training(policy: Policy | None, holders: set[str]) -> list[str]:
    """The statistics that a call changes in the mode in which the policy was handed over, batch norm's apart."""
    if policy is None or not any(module.training for path, module in named_modules(policy) if path in holders):
        return []
    import torch
    from torch.nn.modules.batchnorm import _NormBase

    from graphaudit.policy.isolation import clone_tensors, private_copy
    from graphaudit.policy.seeds import preserved_generators

    copied = private_copy(policy.module)
    if not copied.is_copy:
        return []
    own = [(p, m) for p, m in copied.module.named_modules() if (p or "the policy") in holders]
    kept = {
        f"{path}.{name}" if path else name: (buffer, buffer.clone())
        for path, module in own
        if module.training and not isinstance(module, _NormBase)
        for name, buffer in module.named_buffers(recurse=False)
    }
    try:
        with preserved_generators(), torch.no_grad():
            copied.module(*clone_tensors(tuple(policy.example_args)), **clone_tensors(dict(policy.example_kwargs)))
    except Exception:  # the user's forward need not run in train mode (batch norm on one row)
        return []
    now = dict(copied.module.named_buffers())
    return [name for name, (_, before) in kept.items() if not torch.equal(now[name], before)]
