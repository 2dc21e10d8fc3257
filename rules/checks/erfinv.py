"""`erfinv` has no ONNX translation.

## What it does

Reports `torch.erfinv` and what is made of it, such as the inverse of the normal distribution's CDF.

## Why it matters

The export stops there. Truncated normal distributions sample this way, and policies that act deterministically do not
need it.

## Example

```python
def forward(self, obs, u):
    return self.mean(obs) + self.std * math.sqrt(2) * torch.erfinv(2 * u - 1)
```

## Use instead

```python
def forward(self, obs, noise):  # noise ~ N(0, 1)
    return self.mean(obs) + self.std * noise
```

## References

- torch.erfinv: https://docs.pytorch.org/docs/stable/special.html#torch.special.erfinv
- ONNX Erf: https://onnx.ai/onnx/operators/onnx__Erf.html
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Erfinv(OperatorCheck):
    code = "GA222"
    name = "erfinv"
    remedy = "Draw the noise outside the graph, or use the mean."
    operators = ("aten.erfinv", "aten.special_ndtri")
    effect = "torch's ONNX exporter has no translation for it"
