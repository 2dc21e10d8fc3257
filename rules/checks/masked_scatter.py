"""`masked_scatter` copies as many values as the mask has, one after the other.

## What it does

Reports `torch.Tensor.masked_scatter`.

## Why it matters

The exported graph lists the positions (`NonZero`), cuts the source to their number and scatters it: two shapes that
are data, where `torch.where` has none.

## Example

```python
def forward(self, x, mask, fill):
    return x.masked_scatter(mask, fill)  # fill[0], fill[1], … go where mask is set
```

## Use instead

```python
def forward(self, x, mask, fill):
    return torch.where(mask, fill, x)  # fill has the shape of x
```

## References

- masked_scatter: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.masked_scatter.html
- https://github.com/pytorch/pytorch/issues/26034
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class MaskedScatter(OperatorCheck):
    code = "GA229"
    name = "masked-scatter"
    remedy = "Use torch.where with a source of the full shape."
    operators = ("aten.masked_scatter",)
    becomes = ("NonZero", "ScatterND")
    effect = "it becomes NonZero and ScatterND: the number of positions is data"
