"""The target does not take an operator of the exported model.

## What it does

Asks the target's rulebook about every node of the ONNX model, subgraphs included: is there such an operator at the
model's opset, with these dtypes and attributes? Reports the nodes for which the answer is no, with the fact and its
source. Before that, it reports every ATen operator that torch's exporter cannot translate to ONNX at all.

## Why it matters

Runtimes and compilers find this out when they load the model, often in a message that names a node and not your line,
and often on the device. ONNX Runtime on CPU has no `Where` for bool, the ATC compiler for Ascend looks every operator
up at the exact opset of the model and stops at the first miss.

## Example

```python
def forward(self, obs, mask):
    return torch.where(mask, obs > 0, obs < 0)  # Where on bool: no CPU kernel in ONNX Runtime
```

## Use instead

Say the same with operators that the target has:

```python
def forward(self, obs, mask):
    return (mask & (obs > 0)) | (~mask & (obs < 0))
```

## References

- ONNX operators: https://onnx.ai/onnx/operators/
- ONNX Runtime CPU kernels: https://github.com/microsoft/onnxruntime/blob/main/docs/OperatorKernels.md
- ATC's operator map: https://github.com/Ascend/msit, msit/components/analyze/model_evaluation/data/map_conf/onnx.yaml
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Evidence, Finding, Severity
from graphaudit.rules.checks._nodes import judged, spelled

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class UnsupportedOp(Check):
    code = "GA201"
    name = "unsupported-op"
    severity = Severity.ERROR
    remedy = "Rewrite the line with operators that the target takes, or choose another target."
    reads_model = True

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every ATen op that torch cannot translate to ONNX, and every ONNX node that the rulebook refuses."""
        from graphaudit.rulebook import Support

        for lost in subject.refusal.missing if subject.refusal else ():
            yield self.finding(
                f"{lost.op} has no ONNX translation: {lost.message}",
                place=lost.place,
                node=lost.node,
                evidence=Evidence("torch.onnx's registry of translations", "the installed torch and onnxscript"),
            )
        for node, answer in judged(subject, Support.UNSUPPORTED):
            yield self.finding(
                f"{spelled(node)} does not run: {'; '.join(answer.reasons)}",
                place=node.place,
                node=node.name,
                evidence=answer.evidence,
            )
