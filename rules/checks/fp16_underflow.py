"""An epsilon is smaller than float16 can hold.

## What it does

Where the target computes in float16, or the policy does, reports numbers between 0 and 6e-8 in floating-point
operations and in lower bounds of clamps: epsilons such as 1e-8.

## Why it matters

The smallest float16 above zero is 5.96e-8, and what is below half of it rounds to 0: the epsilon that guards a division
or a logarithm is not there. Numbers between 5.96e-8 and 6.1e-5 are subnormal, and some units flush those to 0 as well.

## Example

```python
h = (obs - mean) / (std + 1e-8)
```

## Use instead

```python
h = (obs - mean) / (std + 1e-4)
```

## References

- IEEE 754-2019, table 3.2: binary16, emin = -14
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import SMALLEST_FLOAT16, computing_dtype, constants, in_target, result_dtype

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class Fp16Underflow(Check):
    code = "GA324"
    name = "fp16-underflow"
    severity = Severity.WARNING
    remedy = "Use an epsilon of 1e-4 or more (at least 6.1e-5, the smallest normal float16)."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Positive numbers below the smallest float16 in what is computed in float16."""
        view = subject.fx
        if view is None:
            return
        from graphaudit.graphs.walk import base_op
        from graphaudit.rules.checks._patterns import depends_on_input, varying

        names = varying(view)  # what is constant is folded before anything is narrowed

        clamps = [(n, n.attributes.get("min")) for n in view.select("aten.clamp", "aten.clamp_min")]
        for node, number in (*constants(view), *clamps):
            if number is None or computing_dtype(subject, result_dtype(node)) != "float16":
                continue
            if not depends_on_input(names, node):
                continue
            if 0 < abs(number) < SMALLEST_FLOAT16 and base_op(node) not in ("aten.mul", "aten.div"):
                message = f"{number:g} vanishes in {in_target(subject, 'float16')}, whose smallest number is 6e-8"
                yield self.finding(message, place=node.place, node=node.name)
