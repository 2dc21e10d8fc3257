"""`copysign` has no ONNX translation.

## What it does

Reports `torch.copysign`.

## Why it matters

It reads the sign bit, which ONNX cannot, so the export stops. What can be written instead takes −0.0 for positive.

## Example

```python
def forward(self, throttle, wheel):
    return torch.copysign(throttle, wheel)
```

## Use instead

```python
def forward(self, throttle, wheel):
    return torch.where(wheel < 0, -throttle.abs(), throttle.abs())
```

## References

- torch.copysign: https://docs.pytorch.org/docs/stable/generated/torch.copysign.html
- ONNX Sign: https://onnx.ai/onnx/operators/onnx__Sign.html
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Copysign(OperatorCheck):
    code = "GA217"
    name = "copysign"
    remedy = "Write torch.where(sign < 0, -magnitude.abs(), magnitude.abs())."
    operators = ("aten.copysign",)
    effect = "torch's ONNX exporter has no translation for it"
