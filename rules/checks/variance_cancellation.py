"""A variance is computed as the mean of squares minus the square of the mean.

## What it does

Finds `mean(x**2) - mean(x)**2`, with sums and products in the usual spellings.

## Why it matters

Both terms are about mean(x)**2, and their difference keeps only the digits that rounding left over: for a mean of 1000
and a deviation of 1, float32 has a spacing of 0.0625 at 1e6, so the variance of 1 has one correct digit and may come
out negative; its square root is NaN. In float16, 1000**2 is infinite. The order of summation, which runtimes choose,
changes the result completely.

## Example

```python
var = (x**2).mean(-1) - x.mean(-1) ** 2
```

## Use instead

```python
var = x.var(-1, correction=0)
```

## References

- Chan, Golub, LeVeque: Algorithms for computing the sample variance, The American Statistician 37 (1983)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.graphs.view import GraphView, Value

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class VarianceCancellation(Check):
    code = "GA311"
    name = "variance-cancellation"
    severity = Severity.WARNING
    remedy = "Write x.var(dim, correction=0), which subtracts the mean first."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Differences of a mean of squares and the square of the same tensor's mean."""
        view = subject.fx
        if view is None:
            return
        from graphaudit.graphs.walk import is_same, operands

        for node in view.select("aten.sub"):
            parts = operands(node)
            if len(parts) != 2:
                continue
            left = _mean(view, parts[0])
            inside = _squared(view, left)
            right = _mean(view, _squared(view, parts[1]))
            if inside is not None and right is not None and is_same(view, inside, right):
                message = "mean(x**2) - mean(x)**2 loses its digits where the mean is large against the deviation"
                yield self.finding(message, place=node.place, node=node.name)


def _mean(view: GraphView, value: Value | float | None) -> Value | None:
    """x, if `value` is a mean of x, or a sum of x over a number."""
    from graphaudit.graphs.walk import base_op, number, operands, producer

    node = producer(view, value) if not isinstance(value, int | float) else None
    if node is not None and base_op(node) in ("aten.div", "aten.mul"):
        parts = operands(node)
        scaled = len(parts) == 2 and number(view, parts[1]) is not None and not isinstance(parts[0], int | float)
        node = producer(view, parts[0]) if scaled else None  # type: ignore[arg-type]
        return node.inputs[0] if node is not None and base_op(node) == "aten.sum" else None
    return node.inputs[0] if node is not None and base_op(node) == "aten.mean" else None


def _squared(view: GraphView, value: Value | float | None) -> Value | None:
    """x, if `value` is x * x or x ** 2."""
    from graphaudit.graphs.walk import base_op, is_same, operands, producer

    node = producer(view, value) if not isinstance(value, int | float) else None
    if node is None:
        return None
    if base_op(node) in ("aten.pow", "aten.square"):
        return node.inputs[0] if node.attributes.get("exponent", 2) == 2 else None
    if base_op(node) == "aten.mul" and len(node.inputs) == 2 and len(operands(node)) == 2:
        return node.inputs[0] if is_same(view, node.inputs[0], node.inputs[1]) else None
    return None
