"""An argmax, argmin or top-k over values among which ties are likely.

## What it does

Notes argmax, argmin, max with indices, topk and sort over integers, over rounded, clipped or rectified values, and over
logits to which a large mask value was added.

## Why it matters

Where two entries are equal, PyTorch's argmax on the CPU returns the first, topk and sort promise nothing, and other
runtimes choose their own. After relu or clamp several entries are often exactly equal. Adding -1e9 to a logit keeps
none of its digits in float32 (the spacing at 1e9 is 64), so all masked actions tie.

## Example

```python
action = torch.relu(q).argmax(-1)
```

## Use instead

```python
action = q.argmax(-1)
```

## References

- https://docs.pytorch.org/docs/stable/generated/torch.argmax.html: "If there are multiple maximal values …"
- https://onnx.ai/onnx/operators/onnx__ArgMax.html, attribute select_last_index
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.graphs.view import GraphView, Node, Value


_TYING = ("relu", "clamp", "clamp_min", "clamp_max", "hardtanh", "round", "floor", "ceil", "trunc", "sign", "heaviside")


class ArgmaxTie(Check):
    code = "GA322"
    name = "argmax-tie"
    severity = Severity.NOTE
    remedy = "Take the argmax before rounding, clipping or masking with large numbers; ties follow the lowest index."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Selections by size among values that are likely to be equal."""
        view = subject.fx
        if view is None:
            return
        from graphaudit.graphs.walk import base_op, operands
        from graphaudit.rules.checks._patterns import INTEGERS

        for node in view.select("aten.argmax", "aten.argmin", "aten.topk", "aten.sort", "aten.argsort", "aten.max.dim"):
            source = node.inputs[0]
            indices = node.outputs[-1]
            if source is None or (not view.consumers(indices) and indices not in view.outputs):
                continue
            made_by = _source_of_order(view, source)
            kind = base_op(made_by).rpartition(".")[2]
            if source.dtype in INTEGERS or source.dtype == "bool":
                why = f"{source.dtype} values are often equal"
            elif kind in _TYING:
                why = f"{kind} makes values equal"
            elif kind == "add" and any(_is_large(view, part) for part in operands(made_by)):  # type: ignore[arg-type]
                why = "adding so large a number makes values equal"
            else:
                continue
            message = f"{why}, and runtimes choose differently among equal ones"
            yield self.finding(message, place=node.place, node=node.name)


def _source_of_order(view: GraphView, source: Value) -> Node | None:
    """The node behind `source`, past scaling and shifting by a number and past masks: they make no values equal."""
    from graphaudit.graphs.walk import base_op, operands, producer

    node = producer(view, source)
    while node is not None:
        kind = base_op(node).rpartition(".")[2]
        tensors = [o for o in operands(node) if not isinstance(o, int | float) and not o.is_constant]
        scaled = kind in ("mul", "div", "add", "sub") and len(tensors) == 1
        if not scaled and kind not in ("masked_fill", "neg"):
            return node
        if kind == "add" and any(_is_large(view, part) for part in operands(node)):
            return node
        source = tensors[0] if scaled else node.inputs[0]  # type: ignore[assignment]
        node = producer(view, source)
    return None


def _is_large(view: GraphView, operand: Value | float) -> bool:
    """Whether an addend is, or is a multiple of, a number whose spacing in float32 swallows a logit."""
    from graphaudit.graphs.walk import base_op, number, operands, producer

    node = producer(view, operand) if not isinstance(operand, int | float) else None
    parts = [operand, *(operands(node) if node is not None and base_op(node) == "aten.mul" else ())]
    return any(abs(number(view, part) or 0.0) >= 1e8 for part in parts)
