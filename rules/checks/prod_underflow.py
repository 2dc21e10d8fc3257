"""A product of many numbers below 1 underflows to zero.

## What it does

Reports prod and cumprod over eight or more elements, or over a dynamic dimension, of numbers that lie between -1 and 1
(probabilities, discounts, sigmoids), and of numbers of which nothing is known (then as a note).

## Why it matters

The smallest normal number of float32 is 1.2e-38 and of float16 6.1e-5. Ten probabilities of 1e-4 multiply to 1e-40: a
subnormal, which many accelerators flush to 0. In float16 two of them are enough. The order of the factors, which
runtimes are free to choose, then decides whether the result is 0.

## Example

```python
joint = torch.softmax(logits, -1).prod(0)
```

## Use instead

```python
log_joint = torch.log_softmax(logits, -1).sum(0)
```

## References

- IEEE 754-2019, section 7.5: underflow
- https://github.com/thu-ml/tianshou/issues/332
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


_MANY = 8


class ProdUnderflow(Check):
    code = "GA310"
    name = "prod-underflow"
    severity = Severity.WARNING
    remedy = "Add logarithms instead of multiplying."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Long products of numbers that may all be small."""
        view = subject.fx
        if view is None:
            return
        import math

        from graphaudit.graphs.ranges import Ranges
        from graphaudit.graphs.walk import reduced_dims
        from graphaudit.rules.checks._patterns import FLOATS, depends_on_input, result_dtype, varying

        ranges, names = Ranges(view), varying(view)
        for node in view.select("aten.prod", "aten.cumprod"):
            dims, source = reduced_dims(node), node.inputs[0]
            if dims is None or source is None or source.shape is None or result_dtype(node) not in FLOATS:
                continue
            sizes = [source.shape[d] for d in dims]
            count = math.prod(s for s in sizes if isinstance(s, int))
            dynamic = any(not isinstance(s, int) for s in sizes)
            if (count < _MANY and not dynamic) or not depends_on_input(names, node):
                continue
            length = "any number of" if dynamic else str(count)
            low, high = ranges.first(node)
            small = low >= -1.0 and high <= 1.0
            message = f"a product of {length} numbers {'up to 1' if small else 'of unknown size'} may underflow to 0"
            severity = None if small else Severity.NOTE
            yield self.finding(message, place=node.place, node=node.name, severity=severity)
