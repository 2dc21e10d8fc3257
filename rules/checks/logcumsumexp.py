"""`logcumsumexp` is exported around one maximum.

## What it does

Reports `torch.logcumsumexp`.

## Why it matters

Eager mode keeps a running maximum. The exported graph subtracts the maximum of the whole row, so a prefix that lies
104 or more below it (float32; 17 in float16) sums to zero, and its logarithm is −∞.

## Example

```python
def forward(self, logits):
    return torch.logcumsumexp(logits, -1)
```

## Use instead

```python
def forward(self, logits):
    n = logits.shape[-1]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    return logits.unsqueeze(-2).masked_fill(later, -torch.inf).logsumexp(-1)
```

## References

- torch.logcumsumexp: https://docs.pytorch.org/docs/stable/generated/torch.logcumsumexp.html
- https://github.com/pytorch/pytorch/issues/84496
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Logcumsumexp(OperatorCheck):
    code = "GA228"
    name = "logcumsumexp"
    remedy = "Take logsumexp under a triangular mask."
    operators = ("aten.logcumsumexp",)
    becomes = ("CumSum",)
    effect = "it becomes exp, CumSum and log around one maximum, which underflows for terms far below it"
