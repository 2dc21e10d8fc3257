"""A write through an index becomes a scatter.

## What it does

Reports `x[index] = value` where the index is a tensor.

## Why it matters

`ScatterND` is slow on accelerators, takes few dtypes, and does with an index outside the tensor what it likes. A write
through a mask becomes `NonZero` and `ScatterND`, and so a shape that is data.

## Example

```python
def forward(self, x, row):
    board = torch.zeros(8, 4)
    board[row] = x
    return board
```

## Use instead

```python
def forward(self, x, row):
    hit = torch.arange(8).unsqueeze(-1) == row
    return torch.where(hit, x, torch.zeros(8, 4))
```

## References

- ONNX ScatterND: https://onnx.ai/onnx/operators/onnx__ScatterND.html
- https://github.com/onnx/onnx/issues/3781
- https://github.com/pangsu0613/CLOCs/issues/57
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class IndexPut(OperatorCheck):
    code = "GA224"
    name = "index-put"
    remedy = "Select with torch.where under a mask instead of writing."
    operators = ("aten.index_put", "aten._unsafe_index_put")
    becomes = ("ScatterND", "NonZero")
    effect = "a write through an index becomes ScatterND, which does not check its indices on every target"
