"""A recurrent layer is called without an initial state.

## What it does

Runs the policy once and reports every `nn.LSTM`, `nn.GRU`, `nn.RNN` and recurrent cell that gets no state.

## Why it matters

The layer then starts from zeros in every call. That is right for a policy that sees whole sequences, and it is how
training code often looks. A policy that is stepped, one observation at a time, has no memory at all that way.

## Example

```python
def forward(self, seq):
    y, _ = self.rnn(seq)
    return self.head(y[:, -1])
```

## Use instead

For stepping, pass the state through:

```python
def forward(self, obs, state):
    y, state = self.rnn(obs.unsqueeze(1), state)
    return self.head(y[:, -1]), state
```

## References

- torch.nn.LSTM, "defaults to zeros if not provided":
  https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Place, Severity
from graphaudit.graphs.places import place_of

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.policy import Policy


class RecurrentStateImplicit(Check):
    code = "GA509"
    name = "recurrent-state-implicit"
    severity = Severity.NOTE
    remedy = "Pass the state in and return it, unless the policy always gets whole sequences."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Recurrent layers that ran without a state on the example."""
        if subject.policy is None or subject.policy.exported is not None:
            return
        for kind, place in _stateless_calls(subject.policy):
            yield self.finding(f"this {kind} starts from a zero state in every call", place=place)


def _stateless_calls(policy: Policy) -> list[tuple[str, Place | None]]:
    """Class and line of each recurrent layer that the example runs without a state."""
    from torch import nn

    from graphaudit.policy.isolation import clone_tensors

    seen: list[tuple[str, Place | None]] = []

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if (args[1] if len(args) > 1 else kwargs.get("hx")) is None:
            seen.append((type(module).__name__, _calling_place()))

    with policy.working.fresh() as module:
        recurrent = [m for m in module.modules() if isinstance(m, nn.RNNBase | nn.RNNCellBase)]
        hooks = [m.register_forward_pre_hook(note, with_kwargs=True) for m in recurrent]
        try:
            if recurrent:
                module(*clone_tensors(tuple(policy.example_args)), **clone_tensors(dict(policy.example_kwargs)))
        finally:
            for hook in hooks:
                hook.remove()
    return list(dict.fromkeys(seen))


def _calling_place() -> Place | None:
    frames = []
    frame = sys._getframe(2).f_back  # past this function and the hook
    while frame is not None and frame.f_code.co_filename != __file__:
        frames.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return place_of(frames[::-1])
