"""The value of a tensor chooses which module runs.

## What it does

Reports `self.experts[int(skill)]` and its kin: a `ModuleList`, `ModuleDict` or list of modules indexed with a number
that came out of a tensor.

## Why it matters

The graph holds the expert that the example chose, for every input. Mixtures of experts, multi-task heads and options
are the usual places.

## Example

```python
def forward(self, obs, skill):
    return self.skills[int(skill)](obs)
```

## Use instead

Run all heads and take one, or stack the weights and select them:

```python
def forward(self, obs, skill):
    outputs = torch.stack([head(obs) for head in self.skills])
    return outputs.index_select(0, skill.reshape(1)).squeeze(0)
```

## References

- https://github.com/pytorch/pytorch/issues/116336
- torch.func.stack_module_state: https://docs.pytorch.org/docs/stable/generated/torch.func.stack_module_state.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import unless_captured
from graphaudit.rules.checks._tables import holds_modules, lookups

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class DataDependentModuleChoice(Check):
    code = "GA116"
    name = "data-dependent-module-choice"
    severity = Severity.ERROR
    remedy = "Run every module and select the output with index_select, or stack their weights."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Lookups in containers that hold modules."""
        for lookup in lookups(subject):
            if holds_modules(lookup.table):
                severity = unless_captured(subject, lookup.place)
                message = f"a tensor chooses which module of {lookup.text} runs"
                yield self.finding(message, place=lookup.place, severity=severity)
