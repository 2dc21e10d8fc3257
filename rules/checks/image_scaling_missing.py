"""The module lacks the division by 255 that `reference()` applies to images.

## What it does

Divides each image-like input by 255 before the module, alone and together with a change of layout, and reports the step
if that makes the module give the reference's answer on every input.

## Why it matters

Libraries scale images outside of the network. A network trained on values between 0 and 1 that is given bytes is far
outside of its range; its output still has the right shape.

## Example

```python
def forward(self, image):  # given 0 to 255
    return self.cnn(image)
```

## Use instead

```python
def forward(self, image):
    return self.cnn(image.float() / 255.0)
```

## References

- preprocess_obs: https://stable-baselines3.readthedocs.io/en/master/guide/custom_policy.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._reference import missing_step

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ImageScalingMissing(Check):
    code = "GA642"
    name = "image-scaling-missing"
    severity = Severity.WARNING
    remedy = "Divide by 255 in the module that is deployed."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The scaling that explains how the module differs from reference()."""
        yield from missing_step(type(self), subject)
