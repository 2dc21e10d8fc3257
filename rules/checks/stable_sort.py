"""ONNX has no stable sort.

## What it does

Reports `torch.sort` and `torch.argsort` with `stable=True`.

## Why it matters

torch's exporter has no translation for the stable forms. The plain ones become `TopK`, which by the standard puts the
lower index first among equals; a runtime that does not changes every index that is chosen by rank.

## Example

```python
def forward(self, priority):
    return torch.argsort(priority, stable=True)
```

## Use instead

```python
def forward(self, priority):  # integers
    n = priority.shape[-1]
    return torch.argsort(priority * n + torch.arange(n))
```

## References

- torch.sort: https://docs.pytorch.org/docs/stable/generated/torch.sort.html
- ONNX TopK: https://onnx.ai/onnx/operators/onnx__TopK.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphaudit.rules.checks._operator import OperatorCheck

if TYPE_CHECKING:
    from graphaudit.graphs.view import Node


class StableSort(OperatorCheck):
    code = "GA240"
    name = "stable-sort"
    remedy = "Make the keys distinct: add a small multiple of the position."
    operators = ("aten.sort", "aten.argsort")
    becomes = ("TopK",)
    effect = "ONNX has TopK only, and torch writes no stable sort with it"

    def applies(self, node: Node) -> bool:
        """Where stability is asked for."""
        return node.attributes.get("stable") is True
