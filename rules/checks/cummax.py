"""`cummax` and `cummin` have no ONNX translation.

## What it does

Reports `torch.cummax` and `torch.cummin`.

## Why it matters

The export stops there: ONNX has a running sum, and no running maximum.

## Example

```python
def forward(self, returns):
    return torch.cummax(returns, -1).values
```

## Use instead

```python
def forward(self, returns):
    n = returns.shape[-1]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    return returns.unsqueeze(-2).masked_fill(later, -torch.inf).amax(-1)
```

## References

- torch.cummax: https://docs.pytorch.org/docs/stable/generated/torch.cummax.html
- https://github.com/pytorch/pytorch/issues/84496
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Cummax(OperatorCheck):
    code = "GA218"
    name = "cummax"
    remedy = "Take the maximum under a triangular mask."
    operators = ("aten.cummax", "aten.cummin")
    effect = "torch's ONNX exporter has no translation for it"
