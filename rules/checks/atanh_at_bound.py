"""atanh is taken of values that can be exactly -1 or 1.

## What it does

Reports atanh whose argument the graph does not keep inside (-1, 1), in the dtype that the target computes in; and the
formula written out, 0.5 * log((1 + x) / (1 - x)) or 0.5 * (log1p(x) - log1p(-x)).

## Why it matters

atanh(1) is infinite. An action that came out of tanh is exactly 1 from an argument of 9.02 on in float32 (4.51 in
float16), and a clamp does not always help: 1 - 1e-8 is 1 in float32, whose spacing below 1 is 6e-8, and 1 - 1e-4 is 1
in float16, whose spacing is 4.9e-4.

## Example

```python
pre_tanh = torch.atanh(action.clamp(-1 + 1e-8, 1 - 1e-8))
```

## Use instead

```python
pre_tanh = torch.atanh(action.clamp(-1 + 1e-6, 1 - 1e-6))  # for float16: 1e-3
```

Better still: keep the value from before tanh.

## References

- IEEE 754-2019, table 3.2: 11 and 24 bits of precision for binary16 and binary32
- https://github.com/pytorch/pytorch, torch/distributions/transforms.py, TanhTransform: atanh without a clamp
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import SPACING_BELOW_ONE, computing_dtype, in_target, result_dtype

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.graphs.view import GraphView, Node, Value


class AtanhAtBound(Check):
    code = "GA312"
    name = "atanh-at-bound"
    severity = Severity.WARNING
    remedy = "Clamp the argument inside (-1, 1) by more than the dtype's spacing, or keep the value from before tanh."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Arguments of atanh that reach, or round to, -1 or 1."""
        view = subject.fx
        if view is None:
            return
        from graphaudit.graphs.ranges import Ranges

        ranges = Ranges(view)
        by_hand = [(node, x) for node in view.select("aten.log", "aten.sub") if (x := _by_hand(view, node)) is not None]
        for node, argument in [*((n, n.inputs[0]) for n in view.select("aten.atanh")), *by_hand]:
            dtype = computing_dtype(subject, result_dtype(node))
            low, high = ranges.of(argument)
            room = 1.0 - max(high, -low)
            if room > SPACING_BELOW_ONE.get(dtype, 2.0**-24) / 2:
                continue
            if room > 0:
                message = f"the bound {1 - room:.10g} is 1 in {in_target(subject, dtype)}"
            else:
                message = "the argument can be 1"
            message += ", and atanh(1) is infinite; rewritten, it is that of the largest number below 1"
            yield self.finding(message, place=node.place, node=node.name)


def _by_hand(view: GraphView, node: Node) -> Value | None:
    """x of log((1 + x) / (1 - x)), log(1 + x) - log(1 - x), or the latter with log1p."""
    from graphaudit.graphs.walk import base_op, is_same, operands, producer

    if base_op(node) == "aten.log":
        inner = producer(view, node.inputs[0])
        parts = operands(inner) if inner is not None and base_op(inner) == "aten.div" else ()
        above, below = (_from_one(view, p) for p in parts) if len(parts) == 2 else (None, None)
    else:
        logs = [producer(view, o) for o in operands(node) if not isinstance(o, int | float)]
        above, below = (_logged(view, n) for n in logs) if len(logs) == 2 else (None, None)
    if above is None or below is None or (above[1], below[1]) != (1, -1) or not is_same(view, above[0], below[0]):
        return None
    return above[0]


def _logged(view: GraphView, node: Node | None) -> tuple[Value, int] | None:
    """(x, sign) of log(1 + sign * x) or log1p(sign * x)."""
    from graphaudit.graphs.walk import base_op, producer

    if node is None or base_op(node) not in ("aten.log", "aten.log1p") or node.inputs[0] is None:
        return None
    if base_op(node) == "aten.log":
        return _from_one(view, node.inputs[0])
    inner = producer(view, node.inputs[0])
    negated = inner is not None and base_op(inner) == "aten.neg" and inner.inputs[0] is not None
    return (inner.inputs[0], -1) if negated else (node.inputs[0], 1)  # type: ignore[union-attr,return-value]


def _from_one(view: GraphView, value: Value | float) -> tuple[Value, int] | None:
    """(x, sign) of 1 + sign * x."""
    from graphaudit.graphs.walk import base_op, number, operands, producer

    node = producer(view, value) if not isinstance(value, int | float) else None
    if node is None or base_op(node) not in ("aten.add", "aten.sub", "aten.rsub") or len(operands(node)) != 2:
        return None
    first, second = operands(node)[::-1] if base_op(node) == "aten.rsub" else operands(node)
    if base_op(node) == "aten.add":
        first, second = (first, second) if number(view, first) == 1.0 else (second, first)
    if number(view, first) != 1.0 or isinstance(second, int | float):
        return None
    return second, 1 if base_op(node) == "aten.add" else -1
