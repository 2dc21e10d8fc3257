"""Complex numbers do not exist in ONNX runtimes.

## What it does

Reports operators that give complex tensors: FFTs, `torch.polar`, `view_as_complex`.

## Why it matters

ONNX knows complex types, but no operator that computes with them; exporters put a trailing axis of two reals in their
place where they have a translation, and refuse where they have none. `DFT` and `STFT` came with opset 17, and
compilers for accelerators lack them.

The pass `convert_complex_to_real` carries the real and the imaginary part as tensors of their own, complex weights
too, from where complex tensors come into being to where they end in real ones. Complex inputs, results and state of a
policy stay: hand over `torch.view_as_real` of them.

## Example

```python
def forward(self, q):
    return torch.view_as_real(torch.view_as_complex(q) * self.rotation)
```

## Use instead

```python
def forward(self, q):
    a, b = q.unbind(-1)
    return torch.stack([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1)
```

## References

- Complex numbers in torch: https://docs.pytorch.org/docs/stable/complex_numbers.html
- ONNX DFT: https://onnx.ai/onnx/operators/onnx__DFT.html
- https://github.com/pytorch/pytorch/issues/144382
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.rules.checks._operator import OperatorCheck

if TYPE_CHECKING:
    from graphaudit.graphs.view import GraphView, Node


class Complex(OperatorCheck):
    code = "GA216"
    name = "complex"
    remedy = (
        "The pass convert_complex_to_real does it where it can; elsewhere carry the real and imaginary parts as real "
        "tensors, and hand over torch.view_as_real of complex inputs, results and state."
    )
    becomes = ("DFT", "STFT")
    effect = "no ONNX runtime computes with complex tensors; their real and imaginary parts are carried"

    def candidates(self, graph: GraphView) -> Iterator[Node]:
        """Every node that gives a complex tensor."""
        for node in graph.nodes:
            if any((v.dtype or "").startswith("complex") for v in node.outputs):
                yield node
