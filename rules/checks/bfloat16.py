"""The policy holds or computes bfloat16.

## What it does

Reports where bfloat16 comes in: as an input, as a parameter or buffer, or at the step that first makes it.

## Why it matters

bfloat16 has 8 bits of precision (two decimal digits): 257 is 256. ONNX knows it, but few kernels do: ONNX Runtime's CPU
provider has none for most operators, and Ascend's compiler offers it on the A2, A3, 310B and 950 only. A converter that
widens it to float32 gives other roundings than the original after every step, one that narrows it to float16 overflows
at 65504. The model that graphaudit writes holds float32 and rounds every result as bfloat16 would, which costs two
casts each; on targets that narrow to float16 anyway it does not round. Results in bfloat16 leave as float32.

## Example

```python
policy.to(torch.bfloat16)
```

## Use instead

```python
policy.float()
```

## References

- The type constraints of each operator: https://onnx.ai/onnx/operators/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import entries

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class Bfloat16(Check):
    code = "GA317"
    name = "bfloat16"
    severity = Severity.WARNING
    remedy = "Convert parameters and inputs to float32 before export."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """One finding for the inputs, one for the parameters, one for each step that first makes bfloat16."""
        if subject.fx is None:
            return
        found = list(entries(subject.fx, "bfloat16"))
        for kind in ("input", "parameter"):
            group = [(node, value) for k, node, value in found if k == kind]
            if group:
                node, value = group[0]
                others = f" and {len(group) - 1} more" if len(group) > 1 else ""
                message = f"{kind} {value.name}{others}: bfloat16"
                yield self.finding(message, place=node.place if node else None, node=node.name if node else None)
        for node in (node for kind, node, _ in found if kind == "step" and node is not None):
            message = f"{node.op.split('.')[1]} makes bfloat16 here"
            yield self.finding(message, place=node.place, node=node.name)
