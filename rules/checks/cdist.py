"""`cdist` has no ONNX translation.

## What it does

Reports `torch.cdist` and `torch.pdist`.

## Why it matters

The export stops there. In eager mode `cdist` switches for more than 25 rows to a formula with a matrix product, which
cancels for points close to each other, so the spelled-out form is also the more exact one.

## Example

```python
def forward(self, agents, goals):
    return torch.cdist(agents, goals).argmin(-1)
```

## Use instead

```python
def forward(self, agents, goals):
    return (agents.unsqueeze(-2) - goals.unsqueeze(-3)).square().sum(-1).argmin(-1)
```

## References

- torch.cdist: https://docs.pytorch.org/docs/stable/generated/torch.cdist.html
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Cdist(OperatorCheck):
    code = "GA215"
    name = "cdist"
    remedy = "Write the distance out: (a.unsqueeze(-2) - b.unsqueeze(-3)).square().sum(-1).sqrt()."
    operators = ("aten.cdist", "aten._cdist_forward", "aten._euclidean_dist", "aten.pdist")
    effect = "torch's ONNX exporter has no translation for it"
