"""`forward` packs padded sequences.

## What it does

Reports `pack_padded_sequence` and `pack_sequence` inside `forward`.

## Why it matters

Packing needs the lengths on the CPU and lays the data out by them: the number of rows at each time step is a value,
which stock capture either refuses or freezes, and ONNX has no packed sequence. graphaudit runs RNN, LSTM and GRU over
the padded sequence, and lets no step behind a row's length count; other uses of the packed data stop it. At deployment
a policy steps through time, so packing usually belongs to the training loop alone.

## Example

```python
def forward(self, seq, lengths):
    packed = nn.utils.rnn.pack_padded_sequence(seq, lengths.cpu(), batch_first=True, enforce_sorted=False)
    _, (h, _) = self.rnn(packed)
    return self.head(h[-1])
```

## Use instead

Run over the padded sequence and take the last valid step of each row (right for one direction):

```python
def forward(self, seq, lengths):
    out, _ = self.rnn(seq)
    last = (lengths - 1).view(-1, 1, 1).expand(-1, 1, out.shape[-1])
    return self.head(out.gather(1, last).squeeze(1))
```

## References

- pack_padded_sequence:
  https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events, unless_captured

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class PackedSequence(Check):
    code = "GA012"
    name = "packed-sequence"
    severity = Severity.WARNING
    remedy = "Run over the padded sequence and gather the last valid step of each row."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every call that packs a sequence."""
        for event in events(subject, "packed"):
            severity = unless_captured(subject, event.place)
            yield self.finding(
                f"{event.detail} lays data out by the values of lengths", place=event.place, severity=severity
            )
