"""A number is larger than float16 can hold.

## What it does

Where the target computes in float16, or the policy does, reports numbers and constants beyond 65504 in floating-point
operations: mask values such as -1e9, and weights. Where the policy itself computes in float16, reports squares of what
nothing bounds, too, and results whose bounds are beyond 65504.

## Why it matters

65504 is the largest float16; from 65520 on a number rounds to infinity. A mask of -1e9 becomes -infinity, a row that is
masked entirely becomes NaN instead of uniform, and an additive mask (1 - mask) * -1e9 becomes 0 * -infinity = NaN where
nothing is masked. The square of 256 is infinite as well, so norms and variances overflow early. -1e4 has the same
effect in softmax, because exp(-1e4) is 0 in every dtype.

## Example

```python
logits = logits + (1 - mask) * -1e9
```

## Use instead

```python
logits = logits + (1 - mask) * -1e4
```

## References

- IEEE 754-2019, table 3.2: binary16, emax = 15
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import LARGEST_FLOAT16, computing_dtype, constants, in_target, result_dtype

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.graphs.view import GraphView

_SQUARES = ("pow", "square", "var", "std", "norm", "linalg_vector_norm", "exp")


class Fp16Overflow(Check):
    code = "GA319"
    name = "fp16-overflow"
    severity = Severity.WARNING
    remedy = "Use -1e4 as a mask value; scale larger numbers down; square and sum in float32."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Finite numbers beyond 65504 in what is computed in float16, and what may grow beyond that."""
        view = subject.fx
        if view is None:
            return
        from graphaudit.graphs.walk import base_op

        for node, number in constants(view):
            if computing_dtype(subject, result_dtype(node)) == "float16" and _too_large(number):
                message = f"{number:g} is {'-' if number < 0 else ''}inf in {in_target(subject, 'float16')}"
                yield self.finding(message, place=node.place, node=node.name)
        seen: set[str] = set()
        for node in view.nodes:
            for value in node.inputs:
                if value is None or not value.is_constant or value.name in seen or base_op(node) == "aten._to_copy":
                    continue
                seen.add(value.name)
                array = value.array
                if array is None or not array.size or computing_dtype(subject, value.dtype) != "float16":
                    continue
                largest = float(max(abs(array.min()), abs(array.max())))
                if _too_large(largest):
                    message = f"{value.name} holds {largest:g}, which is inf in {in_target(subject, 'float16')}"
                    yield self.finding(message, place=node.place, node=node.name)
        yield from self._grown(view)

    def _grown(self, view: GraphView) -> Iterator[Finding]:
        """Results in float16 that no bound of their inputs keeps below 65504."""
        from graphaudit.graphs.ranges import Ranges
        from graphaudit.graphs.walk import base_op

        ranges = Ranges(view)
        for node in view.nodes:
            if result_dtype(node) != "float16" or any(v is not None and v.dtype != "float16" for v in node.inputs):
                continue
            kind = base_op(node).rpartition(".")[2]
            reached = max(map(abs, ranges.of(node.outputs[0])))
            given = max((abs(bound) for v in node.inputs if v is not None for bound in ranges.of(v)), default=0.0)
            if _too_large(reached) and not _too_large(given):
                message = f"{kind} reaches {reached:g}, which is inf in float16"
            elif reached == float("inf") and (kind in _SQUARES or (kind == "mul" and ranges.is_square(node))):
                message = f"{kind} squares what nothing bounds: from 256 on the result is inf in float16"
            else:
                continue
            yield self.finding(message, place=node.place, node=node.name)


def _too_large(number: float) -> bool:
    return abs(number) > LARGEST_FLOAT16 and abs(number) != float("inf")
