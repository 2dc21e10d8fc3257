"""The target takes an operator, but not quite as ONNX defines it.

## What it does

Reports the limits that the target's rulebook knows for the nodes of the ONNX model. A warning where the target takes
the node and may compute something else without a word, an attribute that its parser never reads, for instance; a note
where the limit concerns precision, speed, or the engine that runs the node.

## Why it matters

These are the differences that no error message shows. ATC for Ascend accepts a `GRU` with `linear_before_reset = 1`
and never reads the attribute, and takes every `Resize` in mode nearest as round_prefer_ceil. A node that moves from the
AI Core to the AI CPU gives the right numbers, slowly.

## Example

```python
self.up = torch.nn.Upsample(scale_factor=1.5, mode="nearest")  # Resize, nearest_mode=floor
```

## Use instead

A spelling that does not depend on what is ignored:

```python
self.up = torch.nn.Upsample(scale_factor=1.5, mode="bilinear", align_corners=False)
```

## References

- ONNX GRU, `linear_before_reset`: https://onnx.ai/onnx/operators/onnx__GRU.html
- ONNX Resize, `nearest_mode`: https://onnx.ai/onnx/operators/onnx__Resize.html
- Supported ONNX operators of Ascend, 2022: https://github.com/Ascend/pytorch, docs/en/ONNX Operator List
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._nodes import judged, spelled

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class LimitedOp(Check):
    code = "GA204"
    name = "limited-op"
    severity = Severity.NOTE
    remedy = "Nothing to do, unless precision or speed on the target disappoint."
    reads_model = True

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every ONNX node that the rulebook takes with limits."""
        from graphaudit.rulebook import Support

        for node, answer in judged(subject, Support.LIMITED):
            hazard = bool(answer.hazards)
            yield self.finding(
                f"{spelled(node)} on {subject.target}: {'; '.join(answer.reasons)}",
                place=node.place,
                node=node.name,
                severity=Severity.WARNING if hazard else None,
                remedy="Compare outputs on the target for this node, or avoid what it ignores." if hazard else None,
                evidence=answer.evidence,
            )
