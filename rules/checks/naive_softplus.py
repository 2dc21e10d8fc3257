"""Softplus is written out as log(1 + exp(x)).

## What it does

Finds `log(1 + exp(x))` and `log1p(exp(x))`.

## Why it matters

The result is infinite above 88.72 in float32 and above 11.09 in float16, where softplus is x to the last bit. Below
-16.6 in float32 (-7.6 in float16) 1 + exp(x) rounds to 1 and the result is 0: a standard deviation made this way is
exactly 0, and a division by it is not finite.

## Example

```python
std = torch.log(1 + torch.exp(raw))
```

## Use instead

```python
std = torch.nn.functional.softplus(raw)
```

## References

- https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softplus.html
- Mächler: Accurately computing log(1 - exp(-|a|)), vignette of the R package Rmpfr (2012)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import EXP_LIMIT, computing_dtype, in_target, result_dtype

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class NaiveSoftplus(Check):
    code = "GA303"
    name = "naive-softplus"
    severity = Severity.WARNING
    remedy = "Write torch.nn.functional.softplus(x)."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every hand-written softplus."""
        if subject.fx is None:
            return
        from graphaudit.graphs.exponentials import find_softplus

        for match in find_softplus(subject.fx):
            dtype = computing_dtype(subject, result_dtype(match.node))
            message = f"the result is infinite above {EXP_LIMIT[dtype]:g} in {in_target(subject, dtype)}, not x"
            yield self.finding(message, place=match.node.place, node=match.node.name)
