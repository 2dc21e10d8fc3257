"""The model imports an opset domain that none of its nodes needs.

## What it does

Reports imports of further opset domains that no node uses, for targets whose older releases refuse a second domain.

## Why it matters

Exporters and optimisers leave imports behind: `ai.onnx.ml`, `com.microsoft`, a domain of functions that were inlined
since. ONNX allows that. Older releases of ATC for Ascend count the domains and stop with E16005 at the second one.

## Example

```python
onnxruntime.transformers.optimizer.optimize_model("policy.onnx")  # imports com.microsoft, used or not
```

## Use instead

The domains that are needed:

```python
used = {node.domain for node in model.graph.node}
kept = [entry for entry in model.opset_import if entry.domain in used]
```

## References

- Opset imports in ONNX: https://onnx.ai/onnx/repo-docs/IR.html#operator-sets
- Two domains refused: https://github.com/lijiaqi0612/UIE-ACL-310/issues/2
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class UnusedDomain(Check):
    code = "GA209"
    name = "unused-domain"
    severity = Severity.WARNING
    remedy = "Drop the import from the model's opset_import."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every imported domain besides the standard one that no node belongs to."""
        graph = subject.judged
        if graph is None or subject.rulebook is None or subject.rulebook.target.several_domains:
            return
        calls = subject.onnx.nodes if subject.onnx is not None else ()  # with local functions still called
        used = {node.domain for node in (*graph.nodes, *calls)}
        for domain, opset in sorted(graph.imports.items()):
            if domain and domain not in used:
                yield self.finding(
                    f"the model imports the domain {domain} at opset {opset}, and no node uses it",
                    evidence=subject.rulebook.evidence("several_domains"),
                )
