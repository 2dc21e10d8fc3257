"""`roll` is decomposed: ONNX has no rotation.

## What it does

Reports `torch.roll`.

## Why it matters

The result is exact: two `Slice` nodes and a `Concat` for each dimension. On a dynamic dimension the slices need the
size at run time.

## Example

```python
def forward(self, frames, new):
    frames = torch.roll(frames, -1, 1)
    return torch.cat([frames[:, :-1], new], 1)
```

## Use instead

```python
def forward(self, frames, new):
    return torch.cat([frames[:, 1:], new], 1)
```

## References

- torch.roll: https://docs.pytorch.org/docs/stable/generated/torch.roll.html
- ONNX Slice: https://onnx.ai/onnx/operators/onnx__Slice.html
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Roll(OperatorCheck):
    code = "GA236"
    name = "roll"
    remedy = "Nothing to do; for frame stacks, torch.cat([x[:, 1:], new], 1) says what is meant."
    operators = ("aten.roll",)
    becomes = ("Slice", "Concat")
    effect = "it becomes two slices and a concatenation"
