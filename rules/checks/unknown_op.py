"""Nobody says whether the target takes an operator.

## What it does

Reports the nodes of the ONNX model for which the target's rulebook has no fact: operators of other domains, operators
that neither the vendor's map nor the sources mention, dtypes for which no kernel is documented.

## Why it matters

Unknown is neither yes nor no. The model may load as it stands, or need a plugin on the host that compiles it, or fail.
Only a run on the target tells.

## Example

```python
torch.onnx.export(policy, args, custom_translation_table={torch.ops.mylib.fused.default: my_domain_op})
```

## Use instead

Standard operators, or the same function spelled out in them:

```python
torch.onnx.export(policy, args)
```

## References

- ONNX operator sets and domains: https://onnx.ai/onnx/repo-docs/IR.html#operator-sets
- Custom operators in ONNX Runtime: https://onnxruntime.ai/docs/reference/operators/add-custom-op.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._nodes import judged, spelled

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class UnknownOp(Check):
    code = "GA202"
    name = "unknown-op"
    severity = Severity.WARNING
    remedy = "Compile or load the model on the target before relying on it, or use an operator with a known answer."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every ONNX node that the rulebook cannot judge."""
        from graphaudit.rulebook import Support

        for node, answer in judged(subject, Support.UNKNOWN):
            yield self.finding(
                f"whether {subject.target} takes {spelled(node)} is not known: {'; '.join(answer.reasons)}",
                place=node.place,
                node=node.name,
                evidence=answer.evidence,
            )
