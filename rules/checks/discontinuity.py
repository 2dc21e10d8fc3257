"""The result jumps where a computed value crosses a threshold.

## What it does

Notes sign, heaviside, floor, ceil, round, trunc and remainder of computed floating-point values, and comparisons of
computed values with a number whose outcome is used as a number.

## Why it matters

A runtime may sum in another order and differ in the last bit. Right at a jump that bit decides between two actions, so
two correct runtimes disagree there, and no tolerance on the output covers it. The equivalence check counts such
elements as undecided: those on which PyTorch itself changes its answer when its inputs move by a few units in the last
place.

## Example

```python
thrust = (error > 0).float() - (error < 0).float()  # bang-bang
```

## Use instead

Nothing, where the jump is meant: test away from the boundary, and give the controller a dead band or hysteresis:

```python
thrust = torch.where(error.abs() > 1e-3, torch.sign(error), 0.0)
```

## References

- https://github.com/apache/tvm/issues/18590
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import FLOATS, depends_on_input, varying

if TYPE_CHECKING:
    from graphaudit.graphs.view import GraphView, Node, Value

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


_JUMPS = ("sign", "heaviside", "floor", "ceil", "round", "trunc", "frac", "remainder", "fmod", "floor_divide")
_COMPARISONS = ("ge", "gt", "le", "lt")


class Discontinuity(Check):
    code = "GA323"
    name = "discontinuity"
    severity = Severity.NOTE
    remedy = "Nothing, where the jump is meant; test away from it, or add hysteresis."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Jumps of values that floating-point rounding reaches."""
        view = subject.fx
        if view is None:
            return
        names = varying(view)
        for node in view.select(*(f"aten.{op}" for op in _JUMPS)):
            source = node.inputs[0]
            if source is not None and source.dtype in FLOATS and depends_on_input(names, node):
                message = f"{node.op.split('.')[1]} jumps; near a jump the last bit of its argument decides"
                yield self.finding(message, place=node.place, node=node.name)
        for node in view.select(*(f"aten.{op}" for op in _COMPARISONS)):
            if node.op.endswith(".Scalar") and _is_computed(view, node.inputs[0]) and _used_as_number(view, node):
                message = f"the comparison with {node.attributes['other']:g} jumps; near it the last bit decides"
                yield self.finding(message, place=node.place, node=node.name)


def _is_computed(view: GraphView, value: Value | None) -> bool:
    from graphaudit.graphs.walk import producer

    return value is not None and value.dtype in FLOATS and producer(view, value) is not None


def _used_as_number(view: GraphView, comparison: Node) -> bool:
    from graphaudit.graphs.walk import base_op, readers

    return any(base_op(n) in ("aten._to_copy", "aten.mul", "aten.sum") for n in readers(view, comparison.outputs[0]))
