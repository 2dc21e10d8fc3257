"""An operator exports to an ONNX operator of a recent opset.

## What it does

Reports operators whose ONNX form came with opset 16 or later.

## Why it matters

The opset of a model is the newest one that any of its operators needs. A target that stops below it takes none of the
model: vendors' tables often end at opset 11, 13 or 17.

## Example

```python
def forward(self, obs):
    return F.mish(self.l1(obs))  # Mish: opset 18
```

## Use instead

```python
def forward(self, obs):
    h = self.l1(obs)
    return h * torch.tanh(F.softplus(h))
```

## References

- ONNX operators by opset: https://onnx.ai/onnx/operators/
- https://github.com/pytorch/pytorch/issues/116336
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.rules.checks._operator import OperatorCheck

if TYPE_CHECKING:
    from graphaudit.graphs.view import GraphView, Node

# operator → the ONNX operator that torch writes for it, and the opset that brought that one
OPERATORS = {
    "aten.grid_sampler": ("GridSample", 16),
    "aten.grid_sampler_2d": ("GridSample", 16),
    "aten.layer_norm": ("LayerNormalization", 17),
    "aten.native_layer_norm": ("LayerNormalization", 17),
    "aten.fft_rfft": ("DFT", 17),
    "aten._fft_r2c": ("DFT", 17),
    "aten.mish": ("Mish", 18),
    "aten.col2im": ("Col2Im", 18),
    "aten.bitwise_and": ("BitwiseAnd", 18),
    "aten.bitwise_or": ("BitwiseOr", 18),
    "aten.bitwise_xor": ("BitwiseXor", 18),
    "aten.bitwise_not": ("BitwiseNot", 18),
    "aten.__and__": ("BitwiseAnd", 18),
    "aten.__or__": ("BitwiseOr", 18),
    "aten.__xor__": ("BitwiseXor", 18),
}


class OpsetRequirement(OperatorCheck):
    code = "GA231"
    name = "opset-requirement"
    remedy = "Check the opset that the target takes, or spell the operator out in older ones."

    def candidates(self, graph: GraphView) -> Iterator[Node]:
        """The calls of operators with a recent ONNX form."""
        yield from graph.select(*OPERATORS)

    def applies(self, node: Node) -> bool:
        """On bool the bitwise operators are logical ones, which are old."""
        return any(v.dtype != "bool" for v in node.outputs)

    def effect_on(self, node: Node) -> str:
        """The ONNX operator and its opset."""
        onnx_op, opset = next(v for k, v in OPERATORS.items() if node.op in (k, f"{k}.{node.op.rpartition('.')[2]}"))
        return f"ONNX has {onnx_op} from opset {opset} on"
