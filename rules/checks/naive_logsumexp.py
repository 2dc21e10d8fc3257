"""A log-sum-exp is written out as log(sum(exp(x))).

## What it does

Finds logarithms of a sum or mean of exponentials where the maximum is not subtracted first.

## Why it matters

exp(x) is infinite above 88.72 in float32 and above 11.09 in float16, although the result is barely larger than the
largest x. Where every x is below -103.98 (float32), the sum is 0 and the result is -infinity. Soft values with a small
temperature get there at once: q / 0.1 is above 88.72 for q above 8.9.

## Example

```python
v = 0.1 * torch.log(torch.exp(q / 0.1).sum(-1))
```

## Use instead

```python
v = 0.1 * torch.logsumexp(q / 0.1, -1)
```

## References

- https://docs.pytorch.org/docs/stable/generated/torch.logsumexp.html
- Blanchard, Higham, Higham: Accurately computing the log-sum-exp and softmax functions, IMA J. Numer. Anal. 41 (2021)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import EXP_LIMIT, computing_dtype, in_target, result_dtype

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class NaiveLogsumexp(Check):
    code = "GA302"
    name = "naive-logsumexp"
    severity = Severity.WARNING
    remedy = "Write torch.logsumexp(x, dim)."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Log-sum-exp matches whose maximum is not subtracted."""
        if subject.fx is None:
            return
        from graphaudit.graphs.exponentials import find_logsumexp

        for match in find_logsumexp(subject.fx):
            if match.stable:
                continue
            dtype = computing_dtype(subject, result_dtype(match.node))
            message = f"exp() overflows above {EXP_LIMIT[dtype]:g} in {in_target(subject, dtype)}, and its log with it"
            if match.reason:
                message += f"; not rewritten: {match.reason}"
            yield self.finding(message, place=match.node.place, node=match.node.name)
