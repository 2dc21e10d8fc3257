"""A division by something that can be zero.

## What it does

Reports divisions, reciprocals, rsqrt and negative powers whose denominator the graph does not keep away from zero. A
norm, a standard deviation, a square root or sum of squares, a count or an absolute value that may be 0 is a warning; a
denominator of which nothing is known is a note.

## Why it matters

0 / 0 is NaN and 1 / 0 is infinite, in PyTorch as in every runtime, but runtimes differ in what follows: argmax, max and
clip treat NaN differently, and float16 reaches zero earlier, because squares below 6e-8 vanish. The direction to a goal
is undefined exactly when the agent has reached it.

## Example

```python
direction = goal / goal.norm(dim=-1, keepdim=True)
```

## Use instead

```python
direction = goal / goal.norm(dim=-1, keepdim=True).clamp(min=1e-6)
```

## References

- IEEE 754-2019, section 7.3: division by zero
- https://github.com/NVIDIA/TensorRT/issues/1954
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.graphs.view import GraphView, Node


class DivideByZero(Check):
    code = "GA306"
    name = "divide-by-zero"
    severity = Severity.WARNING
    remedy = "Clamp the denominator from below, or add an epsilon that survives the target's dtype."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Denominators whose range includes zero; those of softmax are sums of exponentials and not meant here."""
        view = subject.fx
        if view is None:
            return
        from graphaudit.graphs.exponentials import find_softmax
        from graphaudit.graphs.ranges import Ranges
        from graphaudit.graphs.walk import base_op, operands, producer
        from graphaudit.graphs.zero_divisions import find_zero_divisions
        from graphaudit.rules.checks._patterns import FLOATS, depends_on_input, result_dtype, varying

        ranges, names = Ranges(view), varying(view)
        softmax = {
            m.node.name for m in find_softmax(view) if m.mask is None or not m.stable
        }  # else its mask may be all 0
        repaired = {n.name for found in find_zero_divisions(view, ranges) for n in (found.node, found.inverse) if n}
        for node in view.select("aten.div", "aten.reciprocal", "aten.rsqrt", "aten.pow"):
            if node.name in softmax or result_dtype(node) not in FLOATS or not depends_on_input(names, node):
                continue
            op, parts = base_op(node), operands(node)
            exponent = node.attributes.get("exponent", 0)
            if op == "aten.pow" and not (isinstance(exponent, int | float) and exponent < 0):
                continue
            denominator = parts[1] if op == "aten.div" and len(parts) == 2 else node.inputs[0]
            if denominator is None or not ranges.of(denominator).has(0.0):
                continue
            if op == "aten.reciprocal" and any(r.name in softmax for r in _readers(view, node)):
                continue
            low, high = ranges.of(denominator)
            source = producer(view, denominator) if not isinstance(denominator, int | float) else None
            what = base_op(source).rpartition(".")[2] or "the denominator"
            if low == 0.0 or high == 0.0:
                message, severity = f"the denominator ({what}) can be 0", Severity.WARNING
                if node.name in repaired:
                    message += ", only where the numerator is; rewritten, 0 / 0 is 0, as in torch's normalize()"
            else:
                message, severity = "nothing keeps the denominator away from 0", Severity.NOTE
            yield self.finding(message, place=node.place, node=node.name, severity=severity)


def _readers(view: GraphView, node: Node) -> Iterator[Node]:
    """What reads a reciprocal, through reshapes and the factor 1 with which 1 / x is captured."""
    from graphaudit.graphs.walk import RESHAPES, base_op, is_copy

    for reader in view.consumers(node.outputs[0]):
        yield reader
        if is_copy(reader) or base_op(reader) in RESHAPES | {"aten.expand"} or reader.attributes.get("other") == 1.0:
            yield from _readers(view, reader)
