"""A step of the rewrite gave other numbers than the policy, so it was not kept.

## What it does

Every step (capture, each pass, the translation to ONNX) is run on the same inputs and compared with your eager module,
and with its float64 copy where two float32 results differ. This reports the steps that failed the comparison: an error
for capture and translation, without which there is no model; a note for a pass, which is rolled back and missed. With
`--on-divergence stop` it is an error for a pass too, and the rewrite ends there.

## Why it matters

A policy that acts differently in one case in a thousand passes every smoke test. The comparison covers your example,
your `inputs(seed)` and drawn inputs with zeros, negatives and large values; a NaN on one side only is a failure.

## Example

```python
def forward(self, obs):
    if obs.shape[0] == 1:  # the example has batch 4: the graph has no such branch
        return self.single(obs)
    return self.batched(obs)
```

## Use instead

Write the computation so that it is the same on every input, or give `example_inputs()` and `dynamic_shapes` that show
what varies, so that capture can follow it.

## References

- The five kinds of equivalence: docs/equivalence.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class StepDiverged(Check):
    code = "GA017"
    name = "step-diverged"
    severity = Severity.NOTE
    remedy = "Run `graphaudit bisect`: it names the nodes at fault and writes a file that replays the step."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Steps whose verdict does not hold."""
        for row in subject.rows:
            if row.verdict is None or row.verdict.holds:
                continue
            required = not row.rolled_back
            yield self.finding(
                f"{row.name} {'gives other numbers' if required else 'was rolled back'}: {row.verdict.note}",
                place=row.place,
                node=row.name,
                severity=Severity.ERROR if required else None,
                target=subject.target,
            )
