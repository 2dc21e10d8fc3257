"""The model needs a newer ONNX opset than the target takes.

## What it does

Compares the opset that the model imports with the highest one that the target takes, and names the operators that
exist in newer opsets only. Of a captured policy, it notes the operators that have an ONNX operator of their own in
opsets newer than the one that is exported at for the target: the exporter spells them out in older ones.

## Why it matters

An opset is the vocabulary of a model. A runtime that is older than the model refuses it as a whole: ATC for Ascend
registers the standard operators up to opset 18, so a model at opset 19 fails at its first ordinary node. Some models
only carry a newer number and convert; a model with `Gelu` (opset 20) or `RMSNormalization` (opset 23) does not.

## Example

```python
torch.onnx.export(policy, args, "policy.onnx", dynamo=True, opset_version=20)
```

## Use instead

The target's opset; torch's exporter then spells newer operators out:

```python
torch.onnx.export(policy, args, "policy.onnx", dynamo=True, opset_version=18)
```

## References

- ONNX versions and opsets: https://onnx.ai/onnx/repo-docs/Versioning.html
- ONNX Runtime and opsets: https://onnxruntime.ai/docs/reference/compatibility.html
- ATC's operator map: https://github.com/Ascend/msit, msit/components/analyze/model_evaluation/data/map_conf/onnx.yaml
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


# operator → the ONNX operator of its own, and the opset that brought it (onnx/defs/operator_sets.h)
NEWER = {
    "aten.affine_grid_generator": ("AffineGrid", 20),
    "aten.gelu": ("Gelu", 20),
    "aten.group_norm": ("GroupNormalization", 21),
    "aten.rms_norm": ("RMSNormalization", 23),
    "aten._fused_rms_norm": ("RMSNormalization", 23),
    "aten.scaled_dot_product_attention": ("Attention", 23),
}


class OpsetTooNew(Check):
    code = "GA203"
    name = "opset-too-new"
    severity = Severity.ERROR
    remedy = "Export the model at the target's opset."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The model, and each node whose operator is newer than the opset that the target takes, or is exported at."""
        yield from self._spelled_out(subject)
        graph = subject.judged
        if graph is None or subject.rulebook is None:
            return
        target = subject.rulebook.target
        if graph.opset is None or graph.opset <= target.max_opset:
            return
        from graphaudit.rulebook.schemas import installed_signatures

        evidence = subject.rulebook.evidence("max_opset")
        message = f"the model is at opset {graph.opset}, {target.name} takes {target.max_opset} at most"
        yield self.finding(message, evidence=evidence)
        for node in graph.nodes:
            introduced = installed_signatures().introduced(node.domain, node.op)
            if not node.domain and introduced is not None and introduced > target.max_opset:
                yield self.finding(
                    f"{node.op} exists from opset {introduced} on, {target.name} takes {target.max_opset} at most",
                    place=node.place,
                    node=node.name,
                    evidence=evidence,
                    remedy="Export at the target's opset, or spell the operator out in older ones.",
                )

    def _spelled_out(self, subject: Subject) -> Iterator[Finding]:
        if subject.fx is None or subject.rulebook is None or subject.rulebook.target.graph != "onnx":
            return
        target = subject.rulebook.target
        for node in subject.fx.select(*NEWER):
            operator, opset = NEWER[node.op if node.op in NEWER else node.op.rpartition(".")[0]]
            if opset > target.opset:
                yield self.finding(
                    f"ONNX has {operator} from opset {opset} on; at opset {target.opset} {node.op} is spelled out",
                    place=node.place,
                    node=node.name,
                    severity=Severity.NOTE,
                    remedy="",
                )
