"""Two writes to one place have no defined order.

## What it does

Reports scatters and writes through an index that is computed or given, so that it may hold duplicates.

## Why it matters

ONNX leaves the result open where indices repeat without a reduction. `x[index] += w` reads before it writes, so of two
additions to one place one is lost, in eager mode as well; with a reduction nothing is lost, but the order of additions
is free. `ScatterND` with a reduction needs opset 16.

## Example

```python
def forward(self, w, cell):
    grid = torch.zeros(64)
    grid[cell] += w  # loses one of two agents in the same cell
    return grid
```

## Use instead

```python
def forward(self, w, cell):
    return w @ F.one_hot(cell, 64).to(w.dtype)
```

## References

- torch.index_put: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_put_.html
- ONNX ScatterND: https://onnx.ai/onnx/operators/onnx__ScatterND.html
- https://github.com/pytorch/pytorch/issues/39227
- https://github.com/pytorch/pytorch/issues/111159
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphaudit.rules.checks._operator import OperatorCheck, is_integer

if TYPE_CHECKING:
    from graphaudit.graphs.view import Node, Value


class ScatterDuplicates(OperatorCheck):
    code = "GA238"
    name = "scatter-duplicates"
    remedy = "Add with a one-hot matrix product, or make sure that no index occurs twice."
    operators = (
        "aten.scatter",
        "aten.scatter_add",
        "aten.scatter_reduce",
        "aten.index_add",
        "aten.index_reduce",
        "aten.index_copy",
        "aten.index_put",
    )
    becomes = ("ScatterND", "ScatterElements")
    effect = "where an index occurs twice, the order of the writes decides, or the order of the additions"

    def applies(self, node: Node) -> bool:
        """Not where the index is a constant without duplicates, nor a mask."""
        indices = [v for v in node.inputs[1:] if v is not None and is_integer(v.dtype)]
        return any(not _distinct(value) for value in indices)


def _distinct(value: Value) -> bool:
    """Whether the value is a constant in which nothing occurs twice."""
    array = value.array
    return array is not None and len(set(array.ravel().tolist())) == array.size
