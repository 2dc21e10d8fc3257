"""`searchsorted` has no ONNX translation.

## What it does

Reports `torch.searchsorted`.

## Why it matters

The export stops there. For the few dozen boundaries of a policy, comparing with all of them is also the faster way on
an accelerator.

## Example

```python
def forward(self, value):
    return torch.searchsorted(self.edges, value)
```

## Use instead

```python
def forward(self, value):
    return (self.edges < value.unsqueeze(-1)).sum(-1)
```

## References

- torch.searchsorted: https://docs.pytorch.org/docs/stable/generated/torch.searchsorted.html
- https://github.com/pytorch/pytorch/issues/84496
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Searchsorted(OperatorCheck):
    code = "GA239"
    name = "searchsorted"
    remedy = "Count the boundaries below the value: (boundaries < x.unsqueeze(-1)).sum(-1)."
    operators = ("aten.searchsorted",)
    effect = "torch's ONNX exporter has no translation for it"
