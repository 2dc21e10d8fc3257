"""A standard deviation or variance with Bessel's correction over what may be a single element.

## What it does

Reports std and var with a correction of 1 (the default) over a dimension of size 1, or over a dynamic dimension, which
can have size 1.

## Why it matters

The corrected variance divides by n - 1, so for n = 1 it is 0 / 0: NaN. A policy that normalises over the batch sees
batches of hundreds in training and a batch of one when it is deployed. Statistics of the batch are suspicious in an
actor anyway: the action for one observation depends on the others.

## Example

```python
h = (obs - obs.mean(0)) / obs.std(0)
```

## Use instead

Statistics gathered in training and kept as buffers, or `correction=0` with an epsilon:

```python
h = (obs - self.mean) / torch.sqrt(self.var + 1e-8)
```

## References

- https://docs.pytorch.org/docs/stable/generated/torch.std.html
- https://github.com/hill-a/stable-baselines/issues/922
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class StdOfSingleSample(Check):
    code = "GA307"
    name = "std-of-single-sample"
    severity = Severity.WARNING
    remedy = "No rewrite can know what is meant: use statistics from training, or correction=0 with an epsilon."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Corrected deviations over a number of elements that is, or can be, 1."""
        view = subject.fx
        if view is None:
            return
        import math

        from graphaudit.graphs.walk import reduced_dims

        for node in view.select("aten.std", "aten.var", "aten.std_mean", "aten.var_mean"):
            dims, source = reduced_dims(node), node.inputs[0]
            correction = node.attributes.get("correction", 1 if node.attributes.get("unbiased", True) else 0)
            correction = 1 if correction is None else correction
            if dims is None or source is None or source.shape is None or correction <= 0:
                continue
            sizes = [source.shape[d] for d in dims]
            count = math.prod(size for size in sizes if isinstance(size, int))
            names = [str(size) for size in sizes if not isinstance(size, int)]
            if count > correction:
                continue
            if names:
                message = f"NaN when {' and '.join(names)} is 1: the deviation of one element divides by n - 1 = 0"
            else:
                message = "always NaN: the deviation of one element divides by n - 1 = 0"
            yield self.finding(message, place=node.place, node=node.name)
