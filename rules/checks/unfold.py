"""Sliding windows become a gather.

## What it does

Reports `Tensor.unfold`, `torch.as_strided` and `torch.nn.functional.unfold`.

## Why it matters

In eager mode windows are views and cost nothing. A graph has no strides: the exporter writes an index of all windows
into the model, fixed to the example's sizes, and `Gather` copies.

## Example

```python
def forward(self, history):
    return self.net(history.unfold(-1, 4, 1))
```

## Use instead

```python
def forward(self, history):
    n = history.shape[-1] - 3
    return self.net(torch.stack([history[..., i : i + n] for i in range(4)], -1))
```

## References

- Tensor.unfold: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.unfold.html
- ONNX Gather: https://onnx.ai/onnx/operators/onnx__Gather.html
- https://github.com/huggingface/transformers/issues/20292
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Unfold(OperatorCheck):
    code = "GA241"
    name = "unfold"
    remedy = "Use a convolution, or stack slices."
    operators = ("aten.unfold", "aten.as_strided", "aten.im2col")
    becomes = ("Gather",)
    effect = "windows become a gather with a constant index: every element is copied once for each window it is in"
