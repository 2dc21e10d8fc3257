"""`forward` uses `torch.vmap`.

## What it does

Finds calls of `torch.vmap` and `torch.func.vmap` in the functions that `forward` runs, as ensembles of critics and
multi-agent networks with stacked parameters use it.

## Why it matters

Capture sees the batched operators that vmap turns each call into, so a captured graph holds no trace of it. Two limits
remain: random operators need an explicit `randomness` mode, and operators without a batching rule fall back to a loop
or are refused. `torch.jit.trace` cannot follow it.

## Example

```python
def forward(self, obs):
    return torch.vmap(self.critic, in_dims=(0, None))(self.stacked_params, obs)
```

## Use instead

Nothing needs to change where capture succeeds. Else write the batched product yourself:

```python
def forward(self, obs):
    return torch.einsum("nij,bj->nbi", self.weights, obs) + self.biases[:, None]
```

## References

- torch.vmap: https://docs.pytorch.org/docs/stable/generated/torch.vmap.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import unless_captured
from graphaudit.rules.checks._source import functions

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class Vmap(Check):
    code = "GA008"
    name = "vmap"
    severity = Severity.NOTE
    remedy = "Nothing to do where capture succeeds; else write the batched operation out."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Calls that resolve to `torch.vmap`."""
        for function in functions(subject.policy):
            for call in function.calls():
                if _is_vmap(function.resolve(call.func)):
                    place = function.place(call)
                    message = "vmap becomes batched operators in the graph"
                    yield self.finding(message, place=place, severity=unless_captured(subject, place))


def _is_vmap(target: object) -> bool:
    module = getattr(target, "__module__", "") or ""
    return getattr(target, "__name__", "") == "vmap" and module.partition(".")[0] == "torch"
