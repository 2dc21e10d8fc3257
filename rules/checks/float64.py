"""The policy computes in float64.

## What it does

Reports where float64 comes in: as an input, as a parameter or buffer, or at the step that first makes it.

## Why it matters

Inference hardware computes in 16 or 32 bits. On Ascend, float64 operators run on the AI CPU, where they run at all;
TensorRT refuses them; ONNX Runtime has float64 kernels for some operators only. Gym observations are float64 by
default, and one NumPy constant is enough to promote what follows. In float32 the results differ by about 1e-7 of their
size, which the policy does not notice and an exact comparison does.

## Example

```python
obs = torch.as_tensor(env_obs)            # float64, as NumPy made it
scale = torch.tensor(np.array([0.1, 0.2]))  # float64
```

## Use instead

```python
obs = torch.as_tensor(env_obs, dtype=torch.float32)
scale = torch.tensor([0.1, 0.2])

policy.float()
```

## References

- https://github.com/microsoft/onnxruntime/issues/3736
- https://github.com/onnx/onnx-tensorrt/issues/152
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._patterns import entries

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class Float64(Check):
    code = "GA313"
    name = "float64"
    severity = Severity.WARNING
    remedy = "Cast parameters, constants and inputs to float32."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """One finding for the inputs, one for the parameters, one for each step that first makes float64."""
        if subject.fx is None:
            return
        found = list(entries(subject.fx, "float64"))
        for kind in ("input", "parameter"):
            group = [(node, value) for k, node, value in found if k == kind]
            if group:
                node, value = group[0]
                others = f" and {len(group) - 1} more" if len(group) > 1 else ""
                message = f"{kind} {value.name}{others}: float64"
                yield self.finding(message, place=node.place if node else None, node=node.name if node else None)
        for node in (node for kind, node, _ in found if kind == "step" and node is not None):
            message = f"{node.op.split('.')[1]} makes float64 here"
            yield self.finding(message, place=node.place, node=node.name)
