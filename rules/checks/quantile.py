"""`quantile` becomes a sort and an interpolation.

## What it does

Reports `torch.quantile` and `torch.nanquantile`.

## Why it matters

The position in the sorted row is computed in the graph, in the dtype of the input: in float16, positions beyond 2048
are rounded. Where the number of elements and the quantile are fixed, so is the position.

## Example

```python
def forward(self, returns):
    return torch.quantile(returns, 0.25, -1)
```

## Use instead

```python
def forward(self, returns):  # 33 of them
    return returns.sort(-1).values[..., 8]
```

## References

- torch.quantile: https://docs.pytorch.org/docs/stable/generated/torch.quantile.html
- ONNX TopK: https://onnx.ai/onnx/operators/onnx__TopK.html
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Quantile(OperatorCheck):
    code = "GA232"
    name = "quantile"
    remedy = "Sort, and interpolate between two fixed positions."
    operators = ("aten.quantile", "aten.nanquantile")
    becomes = ("TopK", "Sort")
    effect = "it becomes a sort (TopK), two gathers and an interpolation, with the position computed in floating point"
