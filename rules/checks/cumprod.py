"""`cumprod` has no ONNX translation at the opsets that targets take.

## What it does

Reports `torch.cumprod`.

## Why it matters

ONNX has `CumProd` from opset 26 on, which no exporter writes yet, so the export stops. A product of many factors also
leaves the range of float16 quickly.

## Example

```python
def forward(self, rewards):
    discount = torch.full_like(rewards, 0.99).cumprod(-1)
    return (discount * rewards).sum(-1)
```

## Use instead

```python
def forward(self, rewards):
    discount = 0.99 ** torch.arange(1, rewards.shape[-1] + 1)
    return (discount * rewards).sum(-1)
```

## References

- torch.cumprod: https://docs.pytorch.org/docs/stable/generated/torch.cumprod.html
- https://github.com/pytorch/pytorch/issues/43618
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Cumprod(OperatorCheck):
    code = "GA219"
    name = "cumprod"
    remedy = "Use powers for a constant factor, or a product under a triangular mask."
    operators = ("aten.cumprod",)
    becomes = ("CumProd",)
    effect = "torch's ONNX exporter has no translation for it"
