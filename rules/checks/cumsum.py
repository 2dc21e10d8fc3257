"""`cumsum` is taken by few engines, in few dtypes.

## What it does

Reports `torch.cumsum`.

## Why it matters

Ascend's AI Core has `CumSum` for float16, float32 and int32; int64 goes to the AI CPU. In float16 a running sum stops
growing once its steps are smaller than half a unit in the last place: ones stop at 2048.

## Example

```python
def forward(self, done):
    return done.long().cumsum(-1)
```

## Use instead

```python
def forward(self, done):
    n = done.shape[-1]
    return done.float() @ torch.ones(n, n).triu()
```

## References

- torch.cumsum: https://docs.pytorch.org/docs/stable/generated/torch.cumsum.html
- ONNX CumSum: https://onnx.ai/onnx/operators/onnx__CumSum.html
- https://github.com/pytorch/pytorch/issues/43618
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Cumsum(OperatorCheck):
    code = "GA220"
    name = "cumsum"
    remedy = "Multiply by a triangular matrix of ones where the target lacks CumSum for the dtype."
    operators = ("aten.cumsum",)
    becomes = ("CumSum",)
    effect = "runtimes add in another order, and compilers have kernels for few dtypes"
