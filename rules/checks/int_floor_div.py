"""Floor division of integers is not one operator in ONNX.

## What it does

Reports `//` and `torch.div(..., rounding_mode=…)` on integers, the latter as a warning.

## Why it matters

`Div` of integers truncates in ONNX, so −7 // 2 would be −3 instead of −4; exporters add a correction. torch 2.13
writes `torch.div` with a rounding mode as a division in float32, which is wrong beyond 2²⁴.

## Example

```python
def forward(self, cell):
    return torch.div(cell, 8, rounding_mode="floor")
```

## Use instead

```python
def forward(self, cell):
    return cell // 8
```

## References

- torch.floor_divide: https://docs.pytorch.org/docs/stable/generated/torch.floor_divide.html
- ONNX Div: https://onnx.ai/onnx/operators/onnx__Div.html
- https://github.com/pytorch/pytorch/issues/78442
- https://github.com/microsoft/onnxscript/issues/989
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphaudit.findings import Severity
from graphaudit.rules.checks._operator import OperatorCheck, dtypes, is_integer

if TYPE_CHECKING:
    from graphaudit.graphs.view import Node


class IntFloorDiv(OperatorCheck):
    code = "GA225"
    name = "int-floor-div"
    remedy = "Use // on non-negative integers; avoid rounding_mode, which goes through float32."
    operators = ("aten.floor_divide", "aten.div")
    becomes = ("Div", "Mod", "Floor")
    effect = "ONNX divides integers towards zero, torch's // rounds down; the difference needs a correction"

    def applies(self, node: Node) -> bool:
        """Integers, and of the divisions those that round."""
        rounds = node.op.startswith("aten.floor_divide") or node.attributes.get("rounding_mode") is not None
        return rounds and all(is_integer(dtype) for dtype in dtypes(node))

    def effect_on(self, node: Node) -> str:
        """`torch.div` with a rounding mode goes through float32."""
        if node.op.startswith("aten.div"):
            return "torch.div with a rounding mode is exported as a division in float32, exact up to 2**24 only"
        return self.effect

    def severity_of(self, node: Node) -> Severity:
        """Beyond 2**24 the results differ without a word."""
        return Severity.WARNING if node.op.startswith("aten.div") else self.severity
