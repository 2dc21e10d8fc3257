"""Text that holds the value of a tensor decides something.

## What it does

Reports strings that are formatted from tensors and then name an attribute, a key or a file, or are compared.

## Why it matters

A graph has no strings. A message may hold a value, because nobody computes with it; a name that is looked up by it
would be another one on each input.

## Example

```python
def forward(self, obs):
    head = getattr(self, f"head_{int(obs[0])}")
    return head(obs)
```

## Use instead

A list that the value indexes; all of its members run, and a mask selects:

```python
def forward(self, obs):
    return self.heads[int(obs[0])](obs)
```

## References

- torch.export, values of tensors in Python: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._refusals import refusals

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ValueInText(Check):
    code = "GA126"
    name = "value-in-text"
    severity = Severity.ERROR
    remedy = "Index an nn.ModuleList or a list with the value instead of building a name from it."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The refusals of that kind, where the text is used."""
        for reason, place in refusals(subject, self.name):
            yield self.finding(reason, place=place)
