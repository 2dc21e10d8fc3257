"""A forward hook changes or watches what a module computes.

## What it does

Names the forward hooks and forward pre-hooks of the policy and of its parts.

## Why it matters

A hook is code that the module's `forward` does not show. `torch.export` runs hooks while it captures, so their tensor
operations become part of the graph, once and for good: a hook that is removed or changed later makes no difference to
the deployed policy. A hook that only records activations costs time there and its side effects are gone. A
`torch.fx.symbolic_trace` of the module leaves hooks of the root module out.

## Example

```python
policy.encoder.register_forward_hook(lambda module, args, out: out / (1 + out.norm(dim=-1, keepdim=True)))
```

## Use instead

```python
def forward(self, obs):
    h = self.encoder(obs)
    return self.head(h / (1 + h.norm(dim=-1, keepdim=True)))
```

## References

- register_forward_hook:
  https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_forward_hook
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class ForwardHook(Check):
    code = "GA010"
    name = "forward-hook"
    severity = Severity.NOTE
    remedy = "Move what the hook computes into forward, or remove hooks that only watch."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every hook that runs in forward."""
        for event in events(subject, "hook"):
            yield self.finding(
                f"a forward hook runs on {event.detail}; its operations are in the graph", place=event.place
            )
