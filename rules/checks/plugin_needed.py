"""A custom operator stays one node, and the target's compiler has to be taught what that node is.

## What it does

Reports the nodes of registered operators that were kept for a target which reads no model-local functions.

## Why it matters

ATC looks up `domain::version::op type` among the plugins that are registered with it, and has no other way to learn
what a node computes: it does not read the body that the model carries. Without the plugin, which needs a kernel of its
own, the model does not compile. Nothing here can run such a plugin, so a policy that needs one is not called fit.

## Example

```python
graphaudit.register_custom_op(
    "rl::symexp", symexp, plain=plain_symexp, examples=[(x,)],
    onnx=graphaudit.OnnxNode("rl", "Symexp", targets=("onnxruntime", "ascend-310p")),
)
```

## Use instead

Leave the target out of `targets`; its plain version is translated for it:

```python
onnx = graphaudit.OnnxNode("rl", "Symexp")
```

Or write the plugin: `graphaudit custom-op skeleton FILE` writes a start, and the model compiles where it is installed.

## References

- ONNX plugins of Ascend's built-in operators: Ascend/canndev, ops/built-in/framework/onnx_plugin
- Functions in ONNX: https://onnx.ai/onnx/repo-docs/IR.html#functions
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class PluginNeeded(Check):
    code = "GA244"
    name = "plugin-needed"
    severity = Severity.ERROR
    reads_model = True
    remedy = (
        "Leave the target out of OnnxNode(targets=...), so that the plain version is translated; or write the plugin, "
        "for which `graphaudit custom-op skeleton` makes a start."
    )

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every node of a registered operator."""
        if subject.onnx is None or subject.rulebook is None or subject.rulebook.target.functions:
            return
        from graphaudit.custom_ops import node_of

        for node in subject.onnx.nodes:
            known = node_of(node.domain, node.op) if not node.graph.startswith("functions/") else None
            if known is not None:
                yield self.finding(
                    f"{subject.target} takes {node.domain}::{node.op} only with a plugin that registers the op type "
                    f"{known.op_type} for the origin type {known.origin_type}",
                    place=node.place,
                    node=node.name,
                    evidence=subject.rulebook.evidence("functions"),
                )
