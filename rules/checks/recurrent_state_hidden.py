"""A recurrent policy hides its state in the module.

## What it does

Reports hidden state that `forward` keeps in a buffer or an attribute: `self.hidden`, `self.h` and `self.c`, a state
beside a recurrent cell.

## Why it matters

The exported policy forgets between steps: each call starts from the state that the module had at export. The first
action of an episode is right, so a comparison on single calls sees nothing. `reset()` is a Python method and stays
behind as well, so the deployed policy cannot start a new episode.

## Example

```python
def forward(self, obs):
    y, (self.h, self.c) = self.rnn(obs.unsqueeze(0), (self.h, self.c))
    return self.head(y.squeeze(0))
```

## Use instead

```python
def forward(self, obs, h, c):
    y, (h, c) = self.rnn(obs.unsqueeze(0), (h, c))
    return self.head(y.squeeze(0)), h, c
```

## References

- torch.nn.LSTM: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
- ONNX LSTM, `initial_h` and `Y_h`: https://onnx.ai/onnx/operators/onnx__LSTM.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events
from graphaudit.rules.checks._state import is_hidden_state, state_severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class RecurrentStateHidden(Check):
    code = "GA508"
    name = "recurrent-state-hidden"
    severity = Severity.ERROR
    remedy = "Pass the hidden state to forward and return it."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Written buffers and attributes that hold a recurrent state."""
        for event in events(subject, "write-buffer", "write-attribute"):
            if is_hidden_state(subject, event):
                severity = state_severity(subject, event)
                message = f"the recurrent state {event.detail} stays in the module; the deployed policy forgets it"
                yield self.finding(message, place=event.place, severity=severity)
