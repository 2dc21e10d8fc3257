"""Execution leaves the accelerator in between.

## What it does

Counts, for targets with an accelerator, how often execution must leave it for another engine or for a node that the
target does not take, how many parts stay on it in one go, and which single node costs the most crossings.

## Why it matters

Every crossing copies tensors and waits. One node in the middle of a policy, an integer cumulative sum that only the AI
CPU computes for instance, can cost more time than the rest of it.

## Example

```python
index = torch.cumsum(mask.long(), dim=1)  # CumSum of int64: the AI CPU
return self.net(obs.gather(1, index - 1))
```

## Use instead

A dtype or an operator that stays:

```python
index = torch.cumsum(mask.float(), dim=1).long()
```

## References

- Engines and dtypes of Ascend's operators: hicann/docs, docs/ops-lib/zh/ascendir-ops-list
- Execution providers in ONNX Runtime: https://onnxruntime.ai/docs/execution-providers/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class AcceleratorLeft(Check):
    code = "GA243"
    name = "accelerator-left"
    severity = Severity.NOTE
    remedy = "Rewrite the node with the most crossings in dtypes and operators that stay on the accelerator."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """One finding for the graph, at the node that costs the most crossings."""
        graph = subject.judged
        if graph is None or subject.rulebook is None:
            return
        from graphaudit.audit.islands import HOSTS, survey

        if not any(subject.rulebook.answer(node).engine in HOSTS for node in graph.nodes):
            return
        found = survey(graph, subject.rulebook)
        node = next((n for n in graph.nodes if n.name == found.worst), None)
        if node is None:
            return
        times = "once" if found.departures == 1 else f"{found.departures} times"
        left = (
            f"execution leaves the accelerator {times}" if found.departures else "execution starts off the accelerator"
        )
        parts = f"{found.islands} part{'s' if found.islands != 1 else ''} with {found.share:.0%} of the nodes"
        cost = f"{node.op} alone costs {found.worst_crossings} of {found.crossings} crossings"
        yield self.finding(
            f"{left}: {parts} stay on it, and {cost}",
            place=node.place,
            node=node.name,
            evidence=subject.rulebook.answer(node).evidence,
        )
