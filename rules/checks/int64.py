"""Arithmetic on 64-bit integers.

## What it does

Notes arithmetic on int64 tensors that depend on the inputs. Indices that are only gathered with are not meant.

## Why it matters

PyTorch makes int64 of every integer; TensorRT and some NPUs compute in int32 and narrow without a word, and values
beyond 2,147,483,647 wrap or saturate. On Ascend several int64 operators (Cumsum and Pow among them) run on the AI CPU
instead of the AI Core. ONNX Runtime keeps int64.

## Example

```python
index = (row * width + column).clamp(0, n - 1)  # int64
```

## Use instead

int32 where the range allows it, cast to int64 only where PyTorch demands it (as an index):

```python
index = (row.int() * width + column.int()).clamp(0, n - 1)
```

## References

- https://github.com/microsoft/onnxruntime/issues/20674
- https://github.com/onnx/onnx-tensorrt/issues/788
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import ARITHMETIC, depends_on_input, input_dtypes, result_dtype, varying

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class Int64(Check):
    code = "GA314"
    name = "int64"
    severity = Severity.NOTE
    remedy = "Use int32 where the range allows it."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Arithmetic that reads and makes int64."""
        view = subject.fx
        if view is None:
            return
        from graphaudit.graphs.walk import base_op

        names = varying(view)
        narrow = subject.rulebook is not None and subject.rulebook.target.compute_dtype == "float16"
        effect = f"; {subject.target} may narrow it to int32, or run it on a slower unit" if narrow else ""
        for node in view.nodes:
            if base_op(node) not in ARITHMETIC or not depends_on_input(names, node):
                continue
            if result_dtype(node) == "int64" and "int64" in input_dtypes(node):
                message = f"{node.op.split('.')[1]} on int64{effect}"
                yield self.finding(message, place=node.place, node=node.name)
