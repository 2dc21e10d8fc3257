"""An input is uint8, as cameras give it.

## What it does

Notes uint8 inputs, and warns of arithmetic on uint8 before the cast.

## Why it matters

The deployed model must get the same dtype: many runtimes and cameras hand over float32, scaled to [0, 1] already, and a
policy that divides by 255 then sees a black image. Arithmetic on uint8 wraps around: 100 - 101 is 255. Targets that
have no uint8 kernels compute in another dtype and do not wrap.

## Example

```python
difference = frame[:, :1] - frame[:, 1:2]  # uint8: wraps around
x = frame / 255.0
```

## Use instead

```python
x = frame.float() / 255.0
difference = x[:, :1] - x[:, 1:2]
```

## References

- https://github.com/Unity-Technologies/ml-agents/issues/700
- https://github.com/DLR-RM/stable-baselines3/issues/199
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import input_dtypes, result_dtype

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class Uint8Input(Check):
    code = "GA315"
    name = "uint8-input"
    severity = Severity.NOTE
    remedy = "Cast to float32 first, and hand the deployed model uint8 as well."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """uint8 among the inputs, and sums, differences and products that stay uint8."""
        view = subject.fx
        if view is None:
            return
        from graphaudit.graphs.walk import base_op

        for value in view.inputs:
            if value.dtype == "uint8":
                reader = next(iter(view.consumers(value)), None)
                message = f"the input {value.name} is uint8 (0 to 255); the deployed model must get the same"
                yield self.finding(message, place=reader.place if reader else None, node=value.name)
        for node in view.nodes:
            wraps = base_op(node) in ("aten.add", "aten.sub", "aten.rsub", "aten.mul", "aten.neg", "aten.pow")
            if wraps and result_dtype(node) == "uint8" and "uint8" in input_dtypes(node):
                message = f"{node.op.split('.')[1]} on uint8 wraps around at 255"
                yield self.finding(message, place=node.place, node=node.name, severity=Severity.WARNING)
