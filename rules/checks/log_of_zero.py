"""A logarithm takes an argument that can be zero or negative.

## What it does

Reports log, log2, log10 and log1p whose argument the graph does not keep above zero: probabilities, 1 - tanh(x)**2,
sums of squares, uniform draws, and values that nothing bounds. `log(softmax(x))` is among them.

## Why it matters

log(0) is -infinity and log of a negative number is NaN; either spoils every sum it enters. In exact arithmetic
1 - tanh(x)**2 is never 0; in float32 tanh(x) is exactly 1 from x = 9.02 on (4.51 in float16), so the log-probability of
a squashed action is -infinity for every saturated action. softmax(x) is exactly 0 for logits that lie 104 below the
largest in float32 and 17.4 below it in float16.

## Example

```python
logp = normal_logp - torch.log(1 - torch.tanh(x) ** 2)
entropy_term = torch.log(torch.softmax(logits, -1))
```

## Use instead

```python
logp = normal_logp - 2 * (math.log(2) - x - torch.nn.functional.softplus(-2 * x))
entropy_term = torch.log_softmax(logits, -1)
```

An epsilon inside the logarithm also works; it must survive the target's dtype (6e-8 is the smallest number of float16).

## References

- The stable correction for tanh: https://github.com/pytorch/pytorch, torch/distributions/transforms.py, TanhTransform
- https://github.com/thu-ml/tianshou/issues/333
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class LogOfZero(Check):
    code = "GA305"
    name = "log-of-zero"
    severity = Severity.WARNING
    remedy = "Use the operator that stays in log space, or keep the argument above zero with an epsilon."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Logarithms whose argument may reach the pole, softplus and log-sum-exp matches excepted."""
        view = subject.fx
        if view is None:
            return
        from graphaudit.graphs.exponentials import find_log_softmax, find_logsumexp, find_softplus
        from graphaudit.graphs.ranges import Ranges
        from graphaudit.graphs.walk import base_op, producer
        from graphaudit.rules.checks._patterns import depends_on_input, varying

        ranges, names = Ranges(view), varying(view)
        matched = {m.node.name for m in (*find_logsumexp(view), *find_softplus(view))}
        # The log inside max + log(sum(exp(x - max))): its sum is at least 1.
        inner = {p.name for m in find_logsumexp(view) for v in m.node.inputs if (p := producer(view, v)) is not None}
        softmax = {m.node.name for m in find_log_softmax(view)}
        for node in view.select("aten.log", "aten.log2", "aten.log10", "aten.log1p"):
            if node.name in matched or node.name in inner:
                continue
            pole = -1.0 if base_op(node) == "aten.log1p" else 0.0
            low = ranges.first(node).low
            if low > pole or not depends_on_input(names, node):
                continue
            if node.name in softmax:
                message = "softmax underflows to 0 for unlikely actions, and its log is -inf"
                remedy = "Write torch.log_softmax(x, dim)."
            else:
                reach = "can be 0" if low == pole else f"can be {pole:g} or below: nothing bounds it"
                message, remedy = f"the argument of the logarithm {reach}", self.remedy
            yield self.finding(message, place=node.place, node=node.name, remedy=remedy)
