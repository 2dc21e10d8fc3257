"""The graph calls a custom operator that targets do not know.

## What it does

Names every operator in the captured graph that is not one of PyTorch's own: those registered with `torch.library` or
by a C++ extension.

## Why it matters

Capture takes a custom operator as one opaque node, and works if the operator has a fake implementation. Every step
after it needs a translation of its own: the ONNX exporter raises for an operator without one, and a runtime needs a
kernel. What the operator computes inside is invisible to an audit. A rewrite follows a kernel that is written in Python
and stays in PyTorch down to ATen (the pass decompose_custom_ops); one that is compiled, or goes through NumPy, needs a
plain version, which `graphaudit.register_custom_op` compares with it.

## Example

```python
@torch.library.custom_op("rl::symexp", mutates_args=())
def symexp(x: Tensor, scale: float) -> Tensor:
    return torch.sign(x) * torch.expm1(scale * x.abs())
```

## Use instead

Register the operator with a plain version, written in torch, of which its translation is made:

```python
def plain_symexp(x, scale):
    return torch.sign(x) * torch.expm1(scale * x.abs())

graphaudit.register_custom_op(symexp, plain=plain_symexp, examples=[(torch.randn(4), 0.7)])
```

Or call the plain function in the deployed policy.

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
from graphaudit.rules.checks._events import events, unless_captured

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class CustomOp(Check):
    code = "GA006"
    name = "custom-op"
    severity = Severity.WARNING
    remedy = "Register a plain version of it with graphaudit.register_custom_op, or call the function that it wraps."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Nodes of the captured graph whose operator is in nobody's namespace but the user's, and calls in eager that
        the graph holds in another form, or not at all."""
        from graphaudit.custom_ops import find

        named: set[str] = set()
        for node in subject.fx.nodes if subject.fx else ():
            if not is_custom(node.domain):
                continue
            named.add("::".join(node.op.split(".")[:2]))
            custom = find("::".join(node.op.split(".")[:2]))
            kept = custom.node_for(subject.target or "") if custom else None
            if kept is not None:
                message = f"{node.op} becomes the node {kept}, whose body is its plain version"
                yield self.finding(message, place=node.place, node=node.name, severity=Severity.NOTE, remedy="")
            elif custom is not None and custom.plain is not None:
                message = f"{node.op} is a custom operator; its plain version, which is registered, goes in its place"
                yield self.finding(message, place=node.place, node=node.name, remedy="")
            else:
                message = f"{node.op} is a custom operator, opaque to the audit and unknown to targets"
                yield self.finding(message, place=node.place, node=node.name)
        for event in events(subject, "custom-op"):
            if event.detail.partition(".")[0] not in named:
                severity = unless_captured(subject, event.place, captured=self.severity)
                message = f"{event.detail} is a custom operator, opaque to the audit and unknown to targets"
                yield self.finding(message, place=event.place, severity=severity)
