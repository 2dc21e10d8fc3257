"""The module expects another order of dimensions than `reference()` is given.

## What it does

Moves the last dimension of each image-like input to the front (HWC to CHW), back, and exchanges the last two, before
the module, and reports the change that makes it give the reference's answer on every input.

## Why it matters

Where the dimensions have the same size, or the network pools over them, a wrong layout raises no error.

## Example

```python
def forward(self, image):  # given height, width, channels
    return self.cnn(image)
```

## Use instead

```python
def forward(self, image):
    return self.cnn(image.permute(0, 3, 1, 2))
```

## References

- VecTransposeImage: https://stable-baselines3.readthedocs.io/en/master/guide/vec_envs.html#vectransposeimage
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._reference import missing_step

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class LayoutTransposeMissing(Check):
    code = "GA646"
    name = "layout-transpose-missing"
    severity = Severity.WARNING
    remedy = "Permute the dimensions in the module that is deployed, or deploy it for inputs in its own layout."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The change of layout that explains how the module differs from reference()."""
        yield from missing_step(type(self), subject)
