"""The batch size of the example is baked into the graph.

## What it does

Reports a dynamic first dimension that capture fixed at the example's size, `int(x.shape[0])` on one, and inputs whose
first dimension varies in `inputs(seed)` although `dynamic_shapes` does not say so.

## Why it matters

The model fails for other batches, or broadcasts and is silently wrong. An example batch of 1 is the usual cause:
`torch.export` takes sizes 0 and 1 for constants. `int(x.shape[0])` is the other: Python has the number then, and
`torch.zeros(1, b, 6)` is a constant of the example's size.

## Example

```python
dynamic_shapes = ({0: "batch"},)

def forward(self, seq):
    b = int(seq.shape[0])
    h0 = torch.zeros(1, b, 6)
    return self.rnn(seq, h0)[0]
```

## Use instead

Leave the size as it is, or derive the tensor from another one; and give an example with a batch of at least 2:

```python
def forward(self, seq):
    h0 = seq.new_zeros(1, seq.shape[0], 6)
    return self.rnn(seq, h0)[0]
```

## References

- torch.export, 0/1 specialisation: https://docs.pytorch.org/docs/stable/export/programming_model.html
- Dynamic shapes: https://docs.pytorch.org/docs/stable/export.html#expressing-dynamism
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import unless_captured
from graphaudit.rules.checks._frozen import frozen_sizes, is_batch
from graphaudit.rules.checks._inputs import drawn, leaves
from graphaudit.rules.checks._sizes import python_sizes

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.policy import Policy


class BatchSizeFrozen(Check):
    code = "GA603"
    name = "batch-size-frozen"
    severity = Severity.ERROR
    remedy = (
        "Declare the dimension in dynamic_shapes, give an example of at least 2 rows, and do not call int() on sizes."
    )

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Frozen first dimensions, sizes made Python numbers, and undeclared ones that vary."""
        if subject.policy is None:
            return
        for size in frozen_sizes(subject):
            if is_batch(subject, size.dimension):
                yield self.finding(size.message, place=size.place, node=size.node)
        for place, dimension in python_sizes(subject.policy):
            if is_batch(subject, dimension):
                severity = unless_captured(subject, place)
                yield self.finding(f"Python makes a number of the size {dimension!r}", place=place, severity=severity)
        yield from self._examples(subject.policy)

    def _examples(self, policy: Policy) -> Iterator[Finding]:
        example = leaves(tuple(policy.example_args))
        for slot in policy.interface.inputs:
            if not slot.shape or slot.path not in example:
                continue
            rows = example[slot.path].shape[0]
            if isinstance(slot.shape[0], str):
                if rows == 1:
                    message = f"the example has 1 row in {slot.path}, which torch.export takes for a constant"
                    yield self.finding(message, node=slot.path, severity=Severity.NOTE)
                continue
            others = {v.shape[0] for a in drawn(policy) if (v := leaves(a).get(slot.path)) is not None and v.dim()}
            if others - {rows}:
                other = min(others - {rows})
                message = (
                    f"{slot.path} has {rows} rows in the example and {other} in inputs(seed); the model takes {rows}"
                )
                yield self.finding(message, node=slot.path)
