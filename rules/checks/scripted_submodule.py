"""The policy calls a TorchScript function or module.

## What it does

Reports `torch.jit.script`ed and `torch.jit.load`ed parts of the policy.

## Why it matters

A scripted part is compiled: capture sees neither its Python source nor, where control flow depends on tensors, its
branches and loops. `torch.export` traces through the operators that one call executes, so a `while` inside is either
refused or unrolled for the example. TorchScript itself is deprecated in favour of `torch.export`.

## Example

```python
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.shrink = torch.jit.script(shrink)
```

## Use instead

Keep the Python function in the policy that is audited:

```python
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.shrink = shrink
```

## References

- TorchScript: https://docs.pytorch.org/docs/stable/jit.html
- https://github.com/pytorch/pytorch/issues/18324
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, unless_captured

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ScriptedSubmodule(Check):
    code = "GA007"
    name = "scripted-submodule"
    severity = Severity.WARNING
    remedy = "Use the Python function or class that was scripted."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every scripted function or module that the policy holds."""
        for event in events(subject, "scripted"):
            what = f"{event.detail} is" if event.detail else "the policy is"
            severity = unless_captured(subject, event.place, Severity.WARNING)
            yield self.finding(f"{what} compiled TorchScript", place=event.place, severity=severity)
