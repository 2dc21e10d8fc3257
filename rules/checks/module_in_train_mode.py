"""The policy was handed over in train mode.

## What it does

Reports a policy, or parts of it, whose `training` flag is set. graphaudit captures and deploys it in eval mode, and
says so with this finding.

## Why it matters

Dropout, batch norm and every `if self.training` behave otherwise in the two modes. Tools disagree about what to do:
`torch.export` keeps the mode it finds, the ONNX exporters switch to eval without a word. Returns measured in train mode
are not those of the deployed policy.

## Example

```python
policy.load_state_dict(torch.load("walker.pt"))
graphaudit.rewrite(policy, example_inputs, target="onnxruntime")
```

## Use instead

```python
policy.load_state_dict(torch.load("walker.pt"))
policy.eval()
graphaudit.rewrite(policy, example_inputs, target="onnxruntime")
```

## References

- torch.nn.Module.eval: https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval
- The mode in torch.export: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._modules import named_modules, training_modules

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ModuleInTrainMode(Check):
    code = "GA501"
    name = "module-in-train-mode"
    severity = Severity.WARNING
    remedy = "Call eval() on the policy before it is handed over."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """One finding for the policy, or for the parts of it that are in train mode."""
        parts = [name for name, _ in training_modules(subject.policy)]
        if not parts:
            return
        whole = len(parts) == sum(1 for _ in named_modules(subject.policy))
        if whole or "the policy" in parts:
            yield self.finding("the policy is in train mode; it is captured and deployed in eval mode")
        else:
            shown = ", ".join(parts[:3]) + (f" and {len(parts) - 3} more" if len(parts) > 3 else "")
            yield self.finding(f"in train mode: {shown}; captured and deployed in eval mode")
