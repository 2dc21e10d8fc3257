"""`einsum` stays one node, and few targets run it well.

## What it does

Reports `torch.einsum`.

## Why it matters

ONNX has `Einsum` from opset 12 on. Runtimes fall back to general loops for it, compilers accept some equations and
refuse others, and none of them shares the speed of its matrix product with it.

## Example

```python
def forward(self, q, k):
    return torch.einsum("bhid,bhjd->bhij", q, k)
```

## Use instead

```python
def forward(self, q, k):
    return q @ k.transpose(-1, -2)
```

## References

- torch.einsum: https://docs.pytorch.org/docs/stable/generated/torch.einsum.html
- ONNX Einsum: https://onnx.ai/onnx/operators/onnx__Einsum.html
- https://github.com/open-mmlab/mmdeploy/issues/1624
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Einsum(OperatorCheck):
    code = "GA221"
    name = "einsum"
    remedy = "Say it with matmul, transpose and broadcasting."
    operators = ("aten.einsum",)
    becomes = ("Einsum",)
    effect = "it stays one Einsum node, which targets take in few forms and run slowly"
