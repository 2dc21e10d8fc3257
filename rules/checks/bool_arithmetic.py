"""Arithmetic on bool tensors needs a cast that the source does not show.

## What it does

Reports sums, products and other arithmetic that reads a bool tensor.

## Why it matters

torch promotes bool as it goes: a sum of bool is int64, a product of two is a logical and, a sum of two a logical or.
ONNX has no arithmetic on bool, and exporters have differed in where they put the cast; a missing one is an invalid
model.

## Example

```python
def forward(self, obs):
    return (obs > 0).sum(-1)
```

## Use instead

```python
def forward(self, obs):
    return (obs > 0).long().sum(-1)
```

## References

- Type promotion: https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
- ONNX Add: https://onnx.ai/onnx/operators/onnx__Add.html
- https://github.com/microsoft/onnxruntime/issues/1807
- https://github.com/pytorch/TensorRT/issues/2024
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphaudit.rules.checks._operator import OperatorCheck, dtypes

if TYPE_CHECKING:
    from graphaudit.graphs.view import Node


class BoolArithmetic(OperatorCheck):
    code = "GA213"
    name = "bool-arithmetic"
    remedy = "Convert masks with .float() or .long() before computing with them."
    operators = (
        "aten.add",
        "aten.sub",
        "aten.mul",
        "aten.sum",
        "aten.mean",
        "aten.cumsum",
        "aten.cumprod",
        "aten.prod",
    )
    becomes = ("Add", "Sub", "Mul", "And", "Cast", "ReduceSum", "CumSum")
    effect = "arithmetic on bool is a rule of torch's own; ONNX needs a cast before it"

    def applies(self, node: Node) -> bool:
        """Where a bool tensor is read."""
        return "bool" in dtypes(node)
