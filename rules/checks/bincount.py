"""`bincount` gives as many counts as the largest value says.

## What it does

Reports `torch.bincount` and `torch.histc`.

## Why it matters

The size of the result is data unless `minlength` covers every value, and even then the exported graph computes it at
run time. Counting is a scatter-add, whose order of additions is free on parallel hardware.

## Example

```python
def forward(self, tiles):
    return torch.bincount(tiles, minlength=16)
```

## Use instead

```python
def forward(self, tiles):
    return F.one_hot(tiles, 16).sum(0)
```

## References

- torch.bincount: https://docs.pytorch.org/docs/stable/generated/torch.bincount.html
- ONNX ScatterElements: https://onnx.ai/onnx/operators/onnx__ScatterElements.html
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Bincount(OperatorCheck):
    code = "GA211"
    name = "bincount"
    remedy = "Count with one_hot(index, size).sum(0)."
    operators = ("aten.bincount", "aten.histc")
    becomes = ("ScatterElements",)
    effect = "its length depends on the largest value; it becomes a scatter of ones"
