"""The model calls functions of its own, which the target does not read.

## What it does

Reports the model-local functions of an ONNX model for a target whose parser has no notion of them.

## Why it matters

Since ONNX IR version 8 a model can define functions and call them like operators. A parser that looks operators up in a
table finds no entry for such a call and refuses the model.

## Example

```python
torch.onnx.export(policy, args, "policy.onnx", dynamo=True, optimize=False)  # keeps pkg.onnxscript functions
```

## Use instead

The same model with every call replaced by its body:

```python
onnx.save(onnx.inliner.inline_local_functions(onnx.load("policy.onnx")), "policy.onnx")
```

## References

- Functions in ONNX: https://onnx.ai/onnx/repo-docs/IR.html#functions
- onnx.inliner: https://onnx.ai/onnx/api/inliner.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class LocalFunction(Check):
    code = "GA206"
    name = "local-function"
    severity = Severity.ERROR
    remedy = "Inline the model's functions with onnx.inliner.inline_local_functions."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every local function, at its first call."""
        if subject.onnx is None or subject.rulebook is None or subject.rulebook.target.functions:
            return
        from graphaudit.custom_ops import node_of

        calls = {f"{n.domain}::{n.op}": n for n in reversed(subject.onnx.nodes)}
        for function in dict.fromkeys(subject.onnx.functions):
            if node_of(*function.rsplit("::", 1)) is not None:
                continue  # plugin-needed speaks of those
            call = calls.get(function)
            yield self.finding(
                f"the model defines the function {function}, and {subject.target} reads no functions",
                place=call.place if call else None,
                node=call.name if call else None,
                evidence=subject.rulebook.evidence("functions"),
            )
