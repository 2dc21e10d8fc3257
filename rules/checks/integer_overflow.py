"""Integer arithmetic that wraps around.

## What it does

Reports products, powers and left shifts of integers whose result does not fit: a factor that is beyond int32 by itself,
or a range (as far as the graph bounds it) beyond the dtype. Products of two unbounded tensors of at most 16 bits count
as well.

## Why it matters

int64 wraps at 9.2e18, int32 at 2,147,483,647. PyTorch wraps in two's complement; on targets without 64-bit integers the
same product wraps at 32 bits, saturates or is rounded to float. A hash that mixes its arguments by overflowing products
gives other embeddings there.

## Example

```python
h = x * 73856093 ^ y * 19349663
h = h * 6364136223846793005
```

## Use instead

Stay below the range, by a remainder after each step, or compute the index outside the policy:

```python
h = (x * 7919 + y * 104729) % 65536
```

## References

- https://github.com/onnx/onnx-tensorrt/issues/152
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import depends_on_input, result_dtype, varying

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


_LIMITS = {"int64": 2.0**63, "int32": 2.0**31, "int16": 2.0**15, "int8": 2.0**7}
_INT32 = 2.0**31


class IntegerOverflow(Check):
    code = "GA318"
    name = "integer-overflow"
    severity = Severity.WARNING
    remedy = "Reduce the operands, by a remainder or a clamp, so that the result fits 32 bits."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Products that leave their dtype, and factors that leave 32 bits on their own."""
        view = subject.fx
        if view is None:
            return
        from graphaudit.graphs.ranges import Ranges
        from graphaudit.graphs.walk import base_op, number, operands

        ranges, names = Ranges(view), varying(view)
        for node in view.select("aten.mul", "aten.pow", "aten.bitwise_left_shift", "aten.__lshift__"):
            dtype = result_dtype(node)
            limit = _LIMITS.get(dtype or "")
            if limit is None or not depends_on_input(names, node):
                continue
            reach = max(abs(end) for end in ranges.of(node.outputs[0]))
            factors = [abs(f) for f in (number(view, part) for part in operands(node)) if f is not None]
            product = base_op(node) == "aten.mul"
            if reach < limit:
                continue
            if product and factors and max(factors) >= _INT32:
                message = (
                    f"a factor of {max(factors):.4g} overflows {dtype} beyond operands of {limit / max(factors):.3g}"
                )
                yield self.finding(message, place=node.place, node=node.name)
            elif reach != float("inf"):
                yield self.finding(f"the result reaches {reach:.3g}, beyond {dtype}", place=node.place, node=node.name)
            elif product and not factors and dtype in ("int8", "int16"):
                yield self.finding(f"a product of two {dtype} tensors wraps around", place=node.place, node=node.name)
            elif product and factors and dtype == "int64" and max(factors) >= 2.0**24:
                message = f"a factor of {max(factors):.0f} leaves int32 for operands beyond {_INT32 / max(factors):.3g}"
                yield self.finding(message, place=node.place, node=node.name, severity=Severity.NOTE)
