"""An argument of `forward` is a list.

## What it does

Names arguments that are lists of tensors.

## Why it matters

The model has one input for each tensor of the example's list, and takes that many, no more and no fewer.

## Example

```python
def forward(self, frames: list[Tensor]):
    return self.net(torch.cat(frames, -1))
```

## Use instead

Nothing needs to change where the length is fixed. One stacked tensor is simpler to feed:

```python
def forward(self, frames):
    return self.net(frames.flatten(1))
```

## References

- torch.export, inputs are pytrees: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._structure import arguments, containers

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ListInterface(Check):
    code = "GA609"
    name = "list-interface"
    severity = Severity.NOTE
    remedy = "Nothing to do where the list always has the same length."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """One finding for each argument that is, or holds, a list."""
        if subject.policy is None:
            return
        for index, spec in enumerate(arguments(subject.policy.interface.in_spec)):
            if list in containers(spec):
                message = f"argument {index} is a list; the model has one input for each of its tensors"
                yield self.finding(message, node=f"args[{index}]")
