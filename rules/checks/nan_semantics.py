"""The policy expects NaN among its inputs, and runtimes disagree about NaN.

## What it does

Notes operations that look for NaN or replace it (isnan, nan_to_num, nanmean, x != x), and, in a policy that has one,
clamp, relu, max and min on values that have not been cleaned of it.

## Why it matters

PyTorch's clamp, relu, maximum and amax return NaN for NaN. ONNX does not define that for Clip, Relu, Max, ReduceMax and
TopK, and backends differ: some return the bound, some the other operand, some whatever comes first. A sensor that fails
with NaN is then clipped to a plausible number without a word.

## Example

```python
x = obs.clamp(-3, 3)          # keeps NaN in PyTorch, may not elsewhere
ok = ~torch.isnan(obs)
```

## Use instead

Replace NaN first, by a comparison that every backend defines:

```python
ok = ~torch.isnan(obs)
x = torch.where(ok, obs, 0.0).clamp(-3, 3)
```

## References

- https://onnx.ai/onnx/operators/onnx__Clip.html, https://onnx.ai/onnx/operators/onnx__Max.html
- IEEE 754-2019, section 9.6: minimum and maximum
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import depends_on_input, varying

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


_EXPLICIT = ("isnan", "nan_to_num", "nanmean", "nansum", "nanmedian", "nanquantile", "isfinite")
_DIVERGING = ("clamp", "clamp_min", "clamp_max", "relu", "maximum", "minimum", "amax", "amin", "max", "min", "topk")


class NanSemantics(Check):
    code = "GA321"
    name = "nan-semantics"
    severity = Severity.NOTE
    remedy = "Replace NaN by torch.where(torch.isnan(x), …) before clamp, relu, max or topk."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """A model that was seen to lose NaN, explicit handling of NaN, and what reads the same values raw."""
        yield from self._lost(subject)
        view = subject.fx
        if view is None:
            return
        from graphaudit.graphs.walk import base_op, is_same, origin

        names = varying(view)
        suspects: set[str] = set()
        for node in view.select("aten.ne", *(f"aten.{op}" for op in _EXPLICIT)):
            if base_op(node) == "aten.ne" and not (
                len(node.inputs) == 2 and is_same(view, node.inputs[0], node.inputs[1])
            ):
                continue
            if not depends_on_input(names, node):
                continue
            source = origin(view, node.inputs[0])
            suspects.update([source.name] if source is not None else [])
            message = f"{node.op.split('.')[1]}: NaN is expected here; compare the target on inputs that hold NaN"
            yield self.finding(message, place=node.place, node=node.name)
        for node in view.select(*(f"aten.{op}" for op in _DIVERGING)):
            sources = [origin(view, v) for v in node.inputs]
            if any(s is not None and s.name in suspects for s in sources):
                message = f"{node.op.split('.')[1]} returns NaN for NaN in PyTorch, which ONNX does not promise"
                yield self.finding(message, place=node.place, node=node.name)

    def _lost(self, subject: Subject) -> Iterator[Finding]:
        """The translation answered otherwise where eager is not finite, and no pass before it did so on purpose."""
        for row in subject.rows:
            if row.verdict is None or row.rolled_back or row.verdict.claim != "equivalent where finite":
                continue
            if row.name == "export":
                yield self.finding(
                    f"the model answers otherwise where the policy gives NaN or infinity: {row.verdict.note}",
                    severity=Severity.WARNING,
                    target=subject.target,
                    node=row.name,
                )
            return
