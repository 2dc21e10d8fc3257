"""The graph calls a custom operator that targets do not know.

## What it does

Names every operator in the captured graph that is not one of PyTorch's own: those registered with `torch.library` or
by a C++ extension.

## Why it matters

Capture takes a custom operator as one opaque node, and works if the operator has a fake implementation. Every step
after it needs a translation of its own: the ONNX exporter raises for an operator without one, and a runtime needs a
kernel. What the operator computes inside is invisible to an audit. A rewrite follows a kernel that is written in Python
and stays in PyTorch down to ATen (the pass decompose_custom_ops); one that is compiled, or goes through NumPy, stays.

## Example

```python
@torch.library.custom_op("rl::symexp", mutates_args=())
def symexp(x: Tensor, scale: float) -> Tensor:
    return torch.sign(x) * torch.expm1(scale * x.abs())
```

## Use instead

Where the operator is a composition of tensor operations, call the plain function in the deployed policy, so that its
parts reach the graph:

```python
def symexp(x, scale):
    return torch.sign(x) * torch.expm1(scale * x.abs())
```

## References

- Custom operators: https://docs.pytorch.org/tutorials/advanced/custom_ops_landing_page.html
- Custom translations of the ONNX exporter: https://docs.pytorch.org/docs/stable/onnx_export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.graphs.namespaces import is_custom

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class CustomOp(Check):
    code = "GA006"
    name = "custom-op"
    severity = Severity.WARNING
    remedy = "Call the function that the operator wraps, or register a translation of it for the target."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Nodes of the captured graph whose operator is in nobody's namespace but the user's."""
        for node in subject.fx.nodes if subject.fx else ():
            if is_custom(node.domain):
                message = f"{node.op} is a custom operator, opaque to the audit and unknown to targets"
                yield self.finding(message, place=node.place, node=node.name)
