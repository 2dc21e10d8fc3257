"""An exponential takes an argument that nothing bounds.

## What it does

Reports exp, expm1, exp2, sinh, cosh and c ** x whose argument the graph does not bound below the overflow, with what is
known of its range. Softmax, log-sum-exp and softplus written by hand have findings of their own.

## Why it matters

exp(x) is infinite above 88.72 in float32, above 11.09 in float16 and above 709.78 in float64. A log standard deviation
or a difference of log-probabilities comes out of a linear layer, so one observation outside the training range is
enough. A target that computes in float16 overflows at arguments that were harmless in training: exp(11.1) is 66171.

## Example

```python
ratio = torch.exp(logp_new - logp_old)
std = torch.exp(self.log_std(features))
```

## Use instead

```python
ratio = torch.exp((logp_new - logp_old).clamp(max=10.0))
std = torch.exp(self.log_std(features).clamp(-20, 2))
```

## References

- IEEE 754-2019: largest finite numbers 65504 (binary16) and 3.4028e38 (binary32)
- https://github.com/thu-ml/tianshou/issues/332
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import EXP_LIMIT, computing_dtype, in_target, result_dtype, varying

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ExpOverflow(Check):
    code = "GA304"
    name = "exp-overflow"
    severity = Severity.WARNING
    remedy = "Clamp the argument, or stay in log space."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Exponentials that may overflow and belong to no known pattern."""
        view = subject.fx
        if view is None:
            return
        import math

        from graphaudit.graphs.exponentials import find_logsumexp, find_softmax, find_softplus
        from graphaudit.graphs.ranges import Ranges

        ranges, names = Ranges(view), varying(view)
        matches = [m for find in (find_softmax, find_logsumexp, find_softplus) for m in find(view)]
        known = {m.exponent.name for m in matches if m.exponent is not None}
        inputs = {(m.exponent.inputs[0].name) for m in matches if m.exponent is not None and m.exponent.inputs[0]}
        scales = {"exp2": math.log(2), "exp": 1.0, "expm1": 1.0, "sinh": 1.0, "cosh": 1.0, "pow": 1.0}
        for node in view.select(*(f"aten.{name}" for name in scales)):
            kind = node.op.split(".")[1]
            base = node.attributes.get("self")
            argument = node.inputs[0]
            if argument is None or node.name in known or argument.name in inputs or (kind == "pow" and base is None):
                continue
            if argument.name not in names:
                continue
            scale = math.log(base) if kind == "pow" and base and base > 1 else scales[kind]
            dtype = computing_dtype(subject, result_dtype(node))
            limit = EXP_LIMIT.get(dtype, EXP_LIMIT["float32"]) / scale
            high = ranges.of(argument).high
            if kind in ("sinh", "cosh"):
                high = max(high, -ranges.of(argument).low)
            if high <= limit:
                continue
            upto = "nothing bounds its argument" if math.isinf(high) else f"its argument goes up to {high:g}"
            message = f"{kind}() overflows above {limit:.4g} in {in_target(subject, dtype)}; {upto}"
            yield self.finding(message, place=node.place, node=node.name)
