"""The lengths of sequences became constants of the graph.

## What it does

Reports packed sequences whose lengths became constants, because capture failed or froze a value at that line. A note
stands where capture kept the lengths as values of the graph, which a trace would not.

## Why it matters

Packing reads the lengths on the CPU. A trace makes constants of them, and then the deployed policy cuts every batch at
the lengths of the example: rows that are longer lose their end, rows that are shorter are read into their padding.

## Example

```python
def forward(self, seq, lengths):
    packed = nn.utils.rnn.pack_padded_sequence(seq, lengths.tolist(), batch_first=True, enforce_sorted=False)
    return self.head(self.rnn(packed)[1][-1])
```

## Use instead

```python
def forward(self, seq, lengths):
    out, _ = self.rnn(seq)
    last = (lengths - 1).view(-1, 1, 1).expand(-1, 1, out.shape[-1])
    return self.head(out.gather(1, last).squeeze(1))
```

## References

- pack_padded_sequence, `lengths`:
  https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, failed, frozen_at

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class LengthsFrozen(Check):
    code = "GA605"
    name = "lengths-frozen"
    severity = Severity.ERROR
    remedy = "Run over the padded sequence and gather the last valid step of each row."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Packed sequences whose lengths are constants of the graph, or would be."""
        for event in events(subject, "packed"):
            lost = failed(subject) or frozen_at(subject, event.place)
            message = "the lengths of these sequences are values that Python reads"
            yield self.finding(message, place=event.place, severity=Severity.ERROR if lost else Severity.NOTE)
