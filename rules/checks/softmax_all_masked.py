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

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


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
        from graphaudit.graphs.masks import is_masked, varying

        names = varying(view)
        for node in view.select("aten.softmax", "aten._softmax", "aten.log_softmax", "aten._log_softmax"):
            if is_masked(view, node.inputs[0], names):
                message = "a row that is masked entirely with -inf becomes NaN; rewritten, it is 0 throughout"
                yield self.finding(message, place=node.place, node=node.name)
        for node in view.select("aten.scaled_dot_product_attention"):
            mask = node.inputs[3] if len(node.inputs) > 3 else None
            if mask is not None and mask.name in names and mask.dtype == "bool":
                message = "a row that is masked entirely is 0 in PyTorch and NaN in other runtimes"
                yield self.finding(message, place=node.place, node=node.name)
