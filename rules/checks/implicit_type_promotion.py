"""Tensors of different dtypes meet in one operation.

## What it does

Notes arithmetic, comparisons, selections and concatenations of tensors of different dtypes. 0-d tensors and Python
numbers do not promote within their kind and are not meant.

## Why it matters

PyTorch promotes silently: int64 with float32 is float32 (exact up to 16,777,216 only), float32 with float64 is float64.
ONNX and most runtimes take one dtype per operation; the exporter inserts the cast that PyTorch's rule implies, and a
hand-written port easily inserts another.

## Example

```python
x = features * step_count  # float32 * int64
```

## Use instead

```python
x = features * step_count.to(features.dtype)
```

## References

- https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


_OPS = ("add", "sub", "mul", "div", "maximum", "minimum", "where", "cat", "stack", "pow", "remainder", "eq", "lt", "gt")


class ImplicitTypePromotion(Check):
    code = "GA320"
    name = "implicit-type-promotion"
    severity = Severity.NOTE
    remedy = "Cast explicitly, to the dtype that is meant."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Operations whose tensors (0-d ones aside) have more than one dtype."""
        if subject.fx is None:
            return
        for node in subject.fx.select(*(f"aten.{op}" for op in _OPS)):
            tensors = [v for v in node.inputs if v is not None and v.shape]
            if node.op.startswith("aten.where"):
                tensors = tensors[1:]
            dtypes = sorted({v.dtype for v in tensors if v.dtype is not None})
            if len(dtypes) > 1:
                result = node.outputs[0].dtype
                message = f"{node.op.split('.')[1]} of {' and '.join(dtypes)} gives {result}"
                yield self.finding(message, place=node.place, node=node.name)
