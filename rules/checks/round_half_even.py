"""Ties are rounded to even, which not every engine does.

## What it does

Reports `torch.round`.

## Why it matters

2.5 becomes 2 and 3.5 becomes 4. An engine that rounds away from zero gives 3 and 4: another bin, another action. In
half precision more values are ties. With `decimals`, the value is scaled first, and the scaling rounds too.

## Example

```python
def forward(self, obs):
    return torch.round(self.net(obs) * 2) / 2
```

## Use instead

```python
def forward(self, obs):
    return torch.floor(self.net(obs) * 2 + 0.5) / 2  # halves go up, on every engine
```

## References

- torch.round: https://docs.pytorch.org/docs/stable/generated/torch.round.html
- ONNX Round: https://onnx.ai/onnx/operators/onnx__Round.html
- https://github.com/apache/tvm/issues/18590
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class RoundHalfEven(OperatorCheck):
    code = "GA237"
    name = "round-half-even"
    remedy = "Keep values off the ties, or write floor(x + 0.5) where that is meant."
    operators = ("aten.round",)
    becomes = ("Round",)
    effect = "torch and ONNX round ties to even, hardware and other languages often away from zero"
