"""atanh is taken of values that can be exactly -1 or 1.

## What it does

Reports atanh whose argument the graph does not keep inside (-1, 1), in the dtype that the target computes in; and the
formula written out, 0.5 * log((1 + x) / (1 - x)) or 0.5 * (log1p(x) - log1p(-x)).

## Why it matters

atanh(1) is infinite. An action that came out of tanh is exactly 1 from an argument of 9.02 on in float32 (4.51 in
float16), and a clamp does not always help: 1 - 1e-8 is 1 in float32, whose spacing below 1 is 6e-8, and 1 - 1e-4 is 1
in float16, whose spacing is 4.9e-4.

## Example

```python
pre_tanh = torch.atanh(action.clamp(-1 + 1e-8, 1 - 1e-8))
```

## Use instead

```python
pre_tanh = torch.atanh(action.clamp(-1 + 1e-6, 1 - 1e-6))  # for float16: 1e-3
```

Better still: keep the value from before tanh.

## References

- IEEE 754-2019, table 3.2: 11 and 24 bits of precision for binary16 and binary32
- https://github.com/pytorch/pytorch, torch/distributions/transforms.py, TanhTransform: atanh without a clamp
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import SPACING_BELOW_ONE, computing_dtype, in_target, result_dtype

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class AtanhAtBound(Check):
    code = "GA312"
    name = "atanh-at-bound"
    severity = Severity.WARNING
    remedy = "Clamp the argument inside (-1, 1) by more than the dtype's spacing, or keep the value from before tanh."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Arguments of atanh that reach, or round to, -1 or 1."""
        view = subject.fx
        if view is None:
            return
        from graphaudit.graphs.one import under_two_atanh
        from graphaudit.graphs.ranges import Ranges

        ranges = Ranges(view)
        logs = view.select("aten.log", "aten.sub")
        by_hand = [(node, x) for node in logs if (x := under_two_atanh(view, node)) is not None]
        for node, argument in [*((n, n.inputs[0]) for n in view.select("aten.atanh")), *by_hand]:
            dtype = computing_dtype(subject, result_dtype(node))
            low, high = ranges.of(argument)
            room = 1.0 - max(high, -low)
            if room > SPACING_BELOW_ONE.get(dtype, 2.0**-24) / 2:
                continue
            if room > 0:
                message = f"the bound {1 - room:.10g} is 1 in {in_target(subject, dtype)}"
            else:
                message = "the argument can be 1"
            message += ", and atanh(1) is infinite; rewritten, it is that of the largest number below 1"
            yield self.finding(message, place=node.place, node=node.name)
