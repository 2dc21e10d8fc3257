"""`%` and `fmod` differ for negative numbers, and so do runtimes.

## What it does

Reports `torch.remainder` (`%`) and `torch.fmod`.

## Why it matters

`Mod` without `fmod` takes integers only in ONNX, so a float `%` becomes x − n · floor(x / n), which can round to n
itself. Ascend's parser ignores the attribute `fmod`.

## Example

```python
def forward(self, angle):
    return (angle + math.pi) % (2 * math.pi) - math.pi
```

## Use instead

```python
def forward(self, angle):
    return torch.atan2(torch.sin(angle), torch.cos(angle))
```

## References

- torch.remainder: https://docs.pytorch.org/docs/stable/generated/torch.remainder.html
- ONNX Mod: https://onnx.ai/onnx/operators/onnx__Mod.html
- https://github.com/pytorch/pytorch/issues/24410
- https://github.com/pytorch/pytorch/issues/86132
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class RemainderSign(OperatorCheck):
    code = "GA233"
    name = "remainder-sign"
    remedy = "Wrap angles with atan2(sin, cos), or write x - n * floor(x / n)."
    operators = ("aten.remainder", "aten.fmod")
    becomes = ("Mod", "Floor")
    effect = "torch's % takes the sign of the divisor and fmod that of the dividend; ONNX has one operator for both"
