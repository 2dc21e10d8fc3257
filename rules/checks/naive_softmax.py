"""Softmax is written out as exp(x) / sum(exp(x)), which overflows for confident logits.

## What it does

Finds quotients of an exponential and the sum of the same exponentials, in any of the usual spellings, where the maximum
of each row is not subtracted first. Subtracting the maximum of the whole tensor counts too, because rows far below it
underflow.

## Why it matters

exp(x) is infinite above 88.72 in float32 and above 11.09 in float16, and infinity / infinity is NaN. Below -103.98 in
float32 (-17.33 in float16) every exp is 0 and 0 / 0 is NaN. A policy that trained well has exactly such confident
logits, and argmax of NaN is action 0 in PyTorch and anything elsewhere. `torch.softmax` subtracts the maximum: its
largest exponent is 0 and its sum is at least 1.

## Example

```python
w = torch.exp(s) / torch.exp(s).sum(-1, keepdim=True)
```

## Use instead

```python
w = torch.softmax(s, -1)
```

## References

- https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html
- https://github.com/NVIDIA/FasterTransformer/issues/43
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


class NaiveSoftmax(Check):
    code = "GA301"
    name = "naive-softmax"
    severity = Severity.WARNING
    remedy = "Write torch.softmax(x, dim)."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Softmax matches whose maximum is not subtracted; those that no pass can replace say why."""
        if subject.fx is None:
            return
        from graphaudit.graphs.exponentials import find_softmax

        for match in find_softmax(subject.fx):
            if match.stable:
                continue
            dtype = computing_dtype(subject, result_dtype(match.node))
            message = f"exp() overflows above {EXP_LIMIT[dtype]:g} in {in_target(subject, dtype)}, and inf / inf is NaN"
            if match.reason:
                message += f"; not rewritten: {match.reason}"
            yield self.finding(message, place=match.node.place, node=match.node.name)
