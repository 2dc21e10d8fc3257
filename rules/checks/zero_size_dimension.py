"""A tensor has no elements, and the target takes no such shapes.

## What it does

Reports inputs and computed values of the ONNX model with a size of 0, for targets that compile static shapes and refuse
empty ones. Constants may be empty.

## Why it matters

PyTorch computes happily with empty tensors: an empty history, a concatenation that starts from nothing. ATC for Ascend
refuses every dimension of size 0 that is not a constant's.

## Example

```python
history = obs.new_zeros(obs.shape[0], 0)
for term in terms:
    history = torch.cat([history, term(obs)], dim=1)
```

## Use instead

Start from the first part:

```python
history = torch.cat([term(obs) for term in terms], dim=1)
```

## References

- ATC, general restrictions: hicann/ge, docs/zh/user_guides/atc_tools/CLI_options/general_restrictions.md
- torch.cat and empty tensors: https://docs.pytorch.org/docs/stable/generated/torch.cat.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ZeroSizeDimension(Check):
    code = "GA208"
    name = "zero-size-dimension"
    severity = Severity.ERROR
    remedy = "Leave the empty part out, or give it at least one element."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every input and every computed value without elements."""
        graph = subject.judged
        if graph is None or subject.rulebook is None or subject.rulebook.target.zero_sizes:
            return
        evidence = subject.rulebook.evidence("zero_sizes")
        for value in graph.inputs:
            if 0 in (value.shape or ()):
                yield self.finding(f"the input {value.name} has the shape {list(value.shape or ())}", evidence=evidence)
        for node in graph.nodes:
            for value in node.outputs:
                if 0 in (value.shape or ()) and not value.is_constant:
                    message = f"{node.op} gives a tensor of shape {list(value.shape or ())}"
                    yield self.finding(message, place=node.place, node=node.name, evidence=evidence)
