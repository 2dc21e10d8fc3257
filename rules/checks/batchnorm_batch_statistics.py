"""Batch norm normalises with the statistics of the batch at hand.

## What it does

Reports batch-norm layers in train mode, and those without running statistics (`track_running_stats=False`), which use
the batch even in eval mode.

## Why it matters

With batch statistics the action for one observation depends on the other observations in the batch. At batch 1, as on
a robot, the variance is zero and the layer gives its bias, or raises. Layers in train mode are deployed in eval mode,
with their running statistics; layers without running statistics have none to use.

## Example

```python
self.norm = nn.BatchNorm1d(64, track_running_stats=False)
```

## Use instead

```python
self.norm = nn.BatchNorm1d(64)  # and policy.eval() for deployment
self.norm = nn.LayerNorm(64)    # depends on one row alone
```

## References

- torch.nn.BatchNorm1d: https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html
- ONNX BatchNormalization and its `training_mode`: https://onnx.ai/onnx/operators/onnx__BatchNormalization.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._modules import named_modules

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class BatchnormBatchStatistics(Check):
    code = "GA502"
    name = "batchnorm-batch-statistics"
    severity = Severity.WARNING
    remedy = "Keep running statistics and call eval() on the policy, or use LayerNorm."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Batch-norm layers that use the batch, as handed over."""
        for name, module in named_modules(subject.policy):
            if not _is_batch_norm(module):
                continue
            if getattr(module, "running_mean", None) is None:
                message = f"{name} has no running statistics: each action depends on the rest of its batch"
                yield self.finding(message, node=name)
            elif module.training:
                message = f"{name} uses batch statistics in train mode; it is deployed with its running statistics"
                yield self.finding(message, node=name)


def _is_batch_norm(module: object) -> bool:
    from torch.nn.modules.batchnorm import _BatchNorm

    return isinstance(module, _BatchNorm)
