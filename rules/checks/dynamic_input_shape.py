"""An input has a size that varies, and the target wants all sizes when the model is compiled.

## What it does

Notes the inputs of the ONNX model with a size that is left open, for targets that lay out memory ahead of time, and
says which forms of varying sizes the target's compiler takes.

## Why it matters

ATC for Ascend compiles fastest and runs fastest with fixed sizes. It can also take a list of alternatives for a size
(gears), and on most chips a range; on Ascend 310B it takes no ranges. A policy on a robot mostly sees batches of one.

## Example

```python
dynamic_shapes = ({0: "batch"},)  # and a robot that always sends one observation
```

## Use instead

A fixed size, where one is enough:

```python
dynamic_shapes = (None,)
```

## References

- ATC, input shapes: hicann/ge, docs/zh/user_guides/atc_tools/CLI_options/--input_shape.md
- ATC, which kind of shape to choose: hicann/ge, docs/en/user_guides/atc_shape_configuration_guide.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class DynamicInputShape(Check):
    code = "GA242"
    name = "dynamic-input-shape"
    severity = Severity.NOTE
    remedy = "Give fixed sizes to the compiler; `graphaudit rulebook atc` writes the command line."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """One finding for the model, if any of its inputs has an open size."""
        graph = subject.judged
        if graph is None or subject.rulebook is None or not subject.rulebook.target.max_gears:
            return
        target = subject.rulebook.target
        open_inputs = [v for v in graph.inputs if any(isinstance(size, str) for size in v.shape or ())]
        if not open_inputs:
            return
        shown = ", ".join(f"{v.name}{list(v.shape or ())}".replace("'", "") for v in open_inputs[:3])
        more = f" and {len(open_inputs) - 3} more" if len(open_inputs) > 3 else ""
        forms = f"fixed sizes, up to {target.max_gears} gears" + (
            ", or ranges" if target.shape_ranges else ", no ranges"
        )
        yield self.finding(
            f"sizes are left open: {shown}{more}; {target.name} takes {forms}",
            evidence=subject.rulebook.evidence("max_gears" if target.shape_ranges else "shape_ranges"),
        )
