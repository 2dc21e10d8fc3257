"""The policy holds or computes float16.

## What it does

Reports where float16 comes in: as an input, as a parameter or buffer, or at the step that first makes it.

## Why it matters

float16 has 11 bits of precision (three decimal digits), ends at 65504 and has no normal numbers below 6.1e-5. PyTorch's
CPU kernels sum float16 in float32 and round once, other runtimes round after each step, so a reference made on a CPU
differs from the target by more than float32 results do. Masks of -1e9 and epsilons of 1e-8 do not exist in float16.

## Example

```python
policy.half()
```

## Use instead

```python
policy.float()  # and let the target choose its precision, with the equivalence check to watch it
```

## References

- IEEE 754-2019, table 3.2: binary16
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import entries

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class HalfPrecision(Check):
    code = "GA316"
    name = "half-precision"
    severity = Severity.NOTE
    remedy = "Export in float32 and let the target narrow, unless float16 is meant."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """One finding for the inputs, one for the parameters, one for each step that first makes float16."""
        if subject.fx is None:
            return
        found = list(entries(subject.fx, "float16"))
        for kind in ("input", "parameter"):
            group = [(node, value) for k, node, value in found if k == kind]
            if group:
                node, value = group[0]
                others = f" and {len(group) - 1} more" if len(group) > 1 else ""
                message = f"{kind} {value.name}{others}: float16"
                yield self.finding(message, place=node.place if node else None, node=node.name if node else None)
        for node in (node for kind, node, _ in found if kind == "step" and node is not None):
            message = f"{node.op.split('.')[1]} makes float16 here"
            yield self.finding(message, place=node.place, node=node.name)
