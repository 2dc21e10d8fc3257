"""A layer is wider than our controller's scratch memory.

## What it does

Finds linear layers with more than 512 outputs.

## Why it matters

A rule of the house: our controller keeps the activations of a layer in 2 KiB of scratch memory, and a wider layer goes
through main memory and misses its deadline.

## Example

```python
self.hidden = nn.Linear(48, 1024)
```

## Use instead

```python
self.hidden = nn.Linear(48, 512)
```

## References

- The data sheet of the controller
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject

WIDEST = 512


class WideLayer(Check):
    code = "GA901"
    name = "wide-layer"
    severity = Severity.WARNING
    remedy = f"Use at most {WIDEST} units."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Calls of linear whose last dimension is too large."""
        for node in subject.fx.select("aten.linear", "aten.addmm") if subject.fx else ():
            width = (node.outputs[0].shape or (0,))[-1]
            if isinstance(width, int) and width > WIDEST:
                yield self.finding(
                    f"the layer has {width} outputs, more than {WIDEST}", place=node.place, node=node.name
                )
