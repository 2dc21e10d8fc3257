"""Bitwise operators on integers are recent in ONNX.

## What it does

Reports `&`, `|`, `^`, `~`, `<<` and `>>` on integer tensors. On bool tensors they are logical operators, and fine.

## Why it matters

`BitwiseAnd` and its kin came with opset 18; targets documented for less have nothing for them. `BitShift` takes
unsigned integers alone, so a shift of int64 becomes two casts around it, with a correction of the sign.

## Example

```python
def forward(self, flags):
    return self.net(((flags >> 2) & 1).float())
```

## Use instead

```python
def forward(self, flags):
    return self.net((flags // 4 % 2).float())
```

## References

- ONNX BitwiseAnd: https://onnx.ai/onnx/operators/onnx__BitwiseAnd.html
- ONNX BitShift: https://onnx.ai/onnx/operators/onnx__BitShift.html
- https://github.com/onnx/onnx-tensorrt/issues/152
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphaudit.rules.checks._operator import OperatorCheck, is_integer

if TYPE_CHECKING:
    from graphaudit.graphs.view import Node


class Bitwise(OperatorCheck):
    code = "GA212"
    name = "bitwise"
    remedy = "Use arithmetic (//, %, +) where the target is older, or unpack the flags outside the policy."
    operators = (
        "aten.bitwise_and",
        "aten.bitwise_or",
        "aten.bitwise_xor",
        "aten.bitwise_not",
        "aten.bitwise_left_shift",
        "aten.bitwise_right_shift",
        "aten.__and__",
        "aten.__or__",
        "aten.__xor__",
        "aten.__lshift__",
        "aten.__rshift__",
    )
    becomes = ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift")
    effect = "ONNX has bitwise operators on integers from opset 18 only, and shifts of unsigned integers only"

    def applies(self, node: Node) -> bool:
        """Integers only."""
        return any(is_integer(v.dtype) for v in node.outputs)
