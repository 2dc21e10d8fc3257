"""A mask writes -infinity into the graph.

## What it does

Reports where -infinity enters the captured graph: as a fill value or as part of a constant.

## Why it matters

-infinity is exact in softmax and max as long as one entry of the row is finite. But -infinity times 0 is NaN, and so is
-infinity minus -infinity: a mask that is multiplied, averaged, or quantised to integers stops being a mask. Compilers
for inference hardware rewrite masked attention into products and sums of masks, and some clamp -infinity to the lowest
finite number.

## Example

```python
logits = logits.masked_fill(~legal, float("-inf"))
```

## Use instead

```python
logits = logits.masked_fill(~legal, -1e4)
```

exp(-1e4) is exactly 0 in every floating-point dtype, and -1e4 fits float16.

## References

- IEEE 754-2019, section 7.2: invalid operations
- https://github.com/iree-org/iree/issues/24175
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class NegInfMask(Check):
    code = "GA309"
    name = "neg-inf-mask"
    severity = Severity.NOTE
    remedy = "Use a finite value such as -1e4, whose exp is 0 in every dtype."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Numbers and constants that are or hold -infinity."""
        view = subject.fx
        if view is None:
            return
        from graphaudit.rules.checks._patterns import constants

        for node, number in constants(view):
            if number == float("-inf"):
                message = "-inf enters the graph here; multiplied by 0 it is NaN"
                yield self.finding(message, place=node.place, node=node.name)
        seen: set[str] = set()
        for node in view.nodes:
            for value in node.inputs:
                if value is None or not value.is_constant or value.name in seen:
                    continue
                seen.add(value.name)
                array = value.array
                if array is not None and array.dtype.kind == "f" and (array == float("-inf")).any():
                    message = f"the constant {value.name} holds -inf; multiplied by 0 it is NaN"
                    yield self.finding(message, place=node.place, node=node.name)
