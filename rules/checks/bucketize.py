"""`bucketize` is unrolled: ONNX has no search in sorted values.

## What it does

Reports `torch.bucketize`.

## Why it matters

The exported graph searches in steps of comparisons and gathers, a dozen nodes for a line of source. Values that lie on
a boundary fall to one side or the other by `right`, and in float16 more values lie on a boundary.

## Example

```python
def forward(self, value):
    return torch.bucketize(value, self.edges)
```

## Use instead

```python
def forward(self, value):
    return (self.edges < value.unsqueeze(-1)).sum(-1)
```

## References

- torch.bucketize: https://docs.pytorch.org/docs/stable/generated/torch.bucketize.html
- https://github.com/pytorch/pytorch/issues/84496
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Bucketize(OperatorCheck):
    code = "GA214"
    name = "bucketize"
    remedy = "Count the boundaries below the value: (boundaries < x.unsqueeze(-1)).sum(-1)."
    operators = ("aten.bucketize",)
    becomes = ("GatherND", "Where")
    effect = "ONNX has no search in sorted values; it is unrolled into a binary search"
