"""A softmax over logits masked with -infinity, of which one row may be masked entirely.

## What it does

Reports softmax and log_softmax whose input is filled with -infinity under a mask that depends on the inputs, and
scaled_dot_product_attention with such a boolean mask.

## Why it matters

Where every action of a row is masked, its maximum is -infinity, -infinity - (-infinity) is NaN, and so is the whole
row; argmax of NaN returns index 0 in PyTorch, an illegal action without an error, and another index elsewhere. In
attention, PyTorch since 2.5 returns zeros for such a row, other runtimes NaN: they are equal on every other input.

## Example

```python
p = torch.softmax(logits.masked_fill(~legal, float("-inf")), -1)
```

## Use instead

A finite value gives a uniform row instead of NaN. -1e4 also fits float16, whose largest number is 65504:

```python
p = torch.softmax(logits.masked_fill(~legal, -1e4), -1)
```

## References

- https://github.com/Stable-Baselines-Team/stable-baselines3-contrib/issues/166
- https://github.com/pytorch/pytorch/issues/131060
- https://github.com/microsoft/onnxscript/issues/2479
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import varying

if TYPE_CHECKING:
    from graphaudit.graphs.view import GraphView, Value

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


_LINEAR_STEPS = ("aten.add", "aten.mul", "aten.div", "aten.sub")


class SoftmaxAllMasked(Check):
    code = "GA308"
    name = "softmax-all-masked"
    severity = Severity.WARNING
    remedy = "Mask with a finite value such as -1e4, or make sure that every row keeps one entry."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Softmax over a -infinity fill, and attention with a boolean mask, where the mask is not a constant."""
        view = subject.fx
        if view is None:
            return
        names = varying(view)
        for node in view.select("aten.softmax", "aten._softmax", "aten.log_softmax", "aten._log_softmax"):
            if _masked(view, node.inputs[0], names, depth=4):
                message = "a row that is masked entirely with -inf becomes NaN"
                yield self.finding(message, place=node.place, node=node.name)
        for node in view.select("aten.scaled_dot_product_attention"):
            mask = node.inputs[3] if len(node.inputs) > 3 else None
            if mask is not None and mask.name in names and mask.dtype == "bool":
                message = "a row that is masked entirely is 0 in PyTorch and NaN in other runtimes"
                yield self.finding(message, place=node.place, node=node.name)


def _masked(view: GraphView, value: Value | None, names: set[str], depth: int) -> bool:
    """Whether -infinity gets into `value` under a mask that varies."""
    from graphaudit.graphs.walk import RESHAPES, base_op, is_copy, number, origin

    value = origin(view, value, lambda n: is_copy(n) or base_op(n) in RESHAPES | {"aten.expand"})
    node = view.producer(value)
    if node is None or depth == 0:
        return False
    op = base_op(node)
    if op in ("aten.masked_fill", "aten.where"):
        mask = node.inputs[1 if op == "aten.masked_fill" else 0]
        fills: list[Value | float | None] = [node.attributes.get(k) for k in ("value", "self", "other")]
        fills += [v for v in node.inputs if v is not None and v is not mask]
        if mask is not None and mask.name in names and any(number(view, f) == float("-inf") for f in fills):
            return True
    if op in _LINEAR_STEPS or op == "aten.where":
        return any(_masked(view, v, names, depth - 1) for v in node.inputs if v is not None)
    return False
