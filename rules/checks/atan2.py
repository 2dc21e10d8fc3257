"""`atan2` is decomposed: ONNX has no two-argument arctangent.

## What it does

Reports `torch.atan2`.

## Why it matters

The quotient y / x rounds to zero in float16 long before the angle does, and torch.onnx's own translation loses the
sign of zero, which decides between π and −π; `decompose_special_functions` keeps it. At the cut the angle jumps by
2π, so tiny differences decide what a policy sees.

## Example

```python
def forward(self, dx, dy):
    return self.net(torch.atan2(dy, dx).unsqueeze(-1))
```

## Use instead

```python
def forward(self, dx, dy):
    return self.net(F.normalize(torch.stack([dx, dy], -1), dim=-1))
```

## References

- torch.atan2: https://docs.pytorch.org/docs/stable/generated/torch.atan2.html
- ONNX Atan: https://onnx.ai/onnx/operators/onnx__Atan.html
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Atan2(OperatorCheck):
    code = "GA210"
    name = "atan2"
    remedy = "Give the network the direction (sine and cosine) instead of the angle."
    operators = ("aten.atan2",)
    becomes = ("Atan",)
    effect = "ONNX has no two-argument arctangent; it becomes Div, Atan and a correction of the quadrant"
