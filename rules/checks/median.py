"""`median` has no ONNX translation.

## What it does

Reports `torch.median`, `torch.nanmedian`, `torch.mode` and `torch.kthvalue`.

## Why it matters

The export stops there. A sort exports (as `TopK`), and the median is its middle; note that torch takes the lower of
the two middle values of an even number.

## Example

```python
def forward(self, critics):
    return critics.median(-1).values
```

## Use instead

```python
def forward(self, critics):
    return critics.sort(-1).values[..., (critics.shape[-1] - 1) // 2]
```

## References

- torch.median: https://docs.pytorch.org/docs/stable/generated/torch.median.html
- ONNX TopK: https://onnx.ai/onnx/operators/onnx__TopK.html
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Median(OperatorCheck):
    code = "GA230"
    name = "median"
    remedy = "Sort, and take the middle: x.sort(-1).values[..., (n - 1) // 2]."
    operators = ("aten.median", "aten.nanmedian", "aten.mode", "aten.kthvalue")
    becomes = ("TopK",)
    effect = "torch's ONNX exporter has no translation for it"
