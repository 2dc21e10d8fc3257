"""Dropout is active where the policy is deployed.

## What it does

Reports dropout layers that are in train mode, and `F.dropout(..., training=True)` inside `forward`, which stays active
in eval mode.

## Why it matters

Active dropout makes the policy random. Both ONNX exporters remove it, in train mode as well as with `training=True`:
the deployed policy is deterministic, with other outputs than those measured. For a layer left in train mode by
accident that is what one wants; for Monte-Carlo dropout it takes the method away.

## Example

```python
def forward(self, obs):
    h = F.dropout(torch.relu(self.enc(obs)), 0.3, training=True)  # an uncertainty estimate
    return self.head(h)
```

## Use instead

Masks are an input, `(rand(h.shape) > 0.3) / 0.7`:

```python
def forward(self, obs, mask):
    return self.head(torch.relu(self.enc(obs)) * mask)
```

For a layer in train mode: `policy.eval()`.

## References

- torch.nn.functional.dropout: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout.html
- ONNX Dropout and its `training_mode`: https://onnx.ai/onnx/operators/onnx__Dropout.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Place, Severity
from graphaudit.rules.checks._events import draw_severity, events, operator
from graphaudit.rules.checks._modules import training_modules
from graphaudit.rules.checks._source import Function, functions

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class DropoutActive(Check):
    code = "GA405"
    name = "dropout-active"
    severity = Severity.WARNING
    remedy = "Call eval() on the policy; make the masks an argument where the noise is wanted."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Layers in train mode with a dropout probability, and draws that dropout makes in eval mode."""
        for name, module in training_modules(subject.policy):
            probability = _probability(module)
            if probability > 0:
                message = f"{name} drops with probability {probability:g} in train mode; it is deployed in eval mode"
                yield self.finding(message, node=name)
        own = functions(subject.policy)
        for event in events(subject, "random"):
            if "dropout" in event.detail or _calls_dropout(own, event.place):
                severity = draw_severity(subject, event.place, Severity.NOTE)
                yield self.finding(
                    f"dropout is active in eval mode ({operator(event)})", place=event.place, severity=severity
                )


def _probability(module: object) -> float:
    from torch import nn

    if isinstance(module, nn.modules.dropout._DropoutNd):
        return float(module.p)
    if isinstance(module, nn.MultiheadAttention | nn.RNNBase):
        return float(module.dropout)
    return 0.0


def _calls_dropout(own: list[Function], place: Place | None) -> bool:
    """Whether the user's line calls a dropout function; below it, the draw is a plain `bernoulli_`."""
    for function in own:
        for call in function.calls() if function.covers(place) else ():
            covered = place is not None and call.lineno <= place.line <= (call.end_lineno or call.lineno)
            if covered and "dropout" in getattr(function.resolve(call.func), "__name__", ""):
                return True
    return False
