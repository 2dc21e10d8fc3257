"""`forward` returns a dictionary, a named tuple, a dataclass or another structured value.

## What it does

Names the structure of the result when it is more than tensors in plain tuples and lists.

## Why it matters

A graph returns a flat list of tensors. graphaudit keeps the structure in the bundle's manifest, with a path for each
output, and `graphaudit.load` gives the policy's own structure back. Whoever calls the model file directly sees the flat
list and has to know the order.

## Example

```python
class Step(NamedTuple):
    action: Tensor
    state: tuple[Tensor, Tensor]

def forward(self, obs, state):
    h, c = self.cell(obs, state)
    return Step(self.head(h), (h, c))
```

## Use instead

Nothing needs to change. A controller that reads the model file itself is simpler to write against a flat tuple:

```python
def forward(self, obs, state):
    h, c = self.cell(obs, state)
    return self.head(h), h, c
```

## References

- torch.export, inputs and outputs are pytrees: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._structure import containers, is_plain

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class StructuredOutput(Check):
    code = "GA013"
    name = "structured-output"
    severity = Severity.NOTE
    remedy = "Nothing to do: the manifest keeps the path of each output."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """One finding that names the structures in the result."""
        if subject.policy is None:
            return
        kinds = [k for k in containers(subject.policy.interface.out_spec) if not is_plain(k)]
        if kinds:
            names = ", ".join(dict.fromkeys(k.__name__ for k in kinds))
            yield self.finding(f"forward returns {names}; the model returns its tensors as a flat list")
