"""The two sides of a branch on a tensor give results of different shapes.

## What it does

Runs the policy on the example and on `inputs(seed)`. Reports results whose shape differs between inputs of the same
shapes, where a condition on a tensor was seen.

## Why it matters

A branch becomes a selection between both sides, element by element, and `torch.cond` wants both to have the same shape
and dtype. Results of different shapes cannot be selected between, so no graph holds both sides. A traced model has the
shape of the side that the example took.

## Example

```python
def forward(self, obs):
    if obs[0, 0] > 0:
        return self.short_plan(obs)  # (1, 4)
    return self.long_plan(obs)       # (1, 8)
```

## Use instead

Pad to the longer one and return its length:

```python
def forward(self, obs):
    short = F.pad(self.short_plan(obs), (0, 4))
    is_short = obs[:, :1] > 0
    return torch.where(is_short, short, self.long_plan(obs)), torch.where(is_short, 4, 8)
```

## References

- torch.cond, "the outputs of both branches must match":
  https://docs.pytorch.org/docs/stable/generated/torch.cond.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events
from graphaudit.rules.checks._inputs import drawn
from graphaudit.rules.checks._refusals import refusals

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.policy import Policy

Shapes = tuple[tuple[int, ...], ...]


class BranchOutputShapesDiffer(Check):
    code = "GA123"
    name = "branch-output-shapes-differ"
    severity = Severity.ERROR
    remedy = "Pad the results to one shape, and return how much of them counts."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """One finding where inputs of the same shapes gave results of different shapes, and a branch decided."""
        for reason, place in refusals(subject, self.name):
            yield self.finding(reason, place=place)
        branches = [e for e in events(subject, "bool") if e.statement not in ("assert",)]
        if subject.policy is None or not branches or any(events(subject, "data-shape")):
            return
        seen: dict[Shapes, Shapes] = {}
        for given, result in _shapes(subject.policy):
            known = seen.setdefault(given, result)
            if known != result:
                mine, other = next((a, b) for a, b in zip((*known, ()), (*result, ())) if a != b)
                message = f"inputs of the same shapes give results of shapes {mine} and {other}, as a branch decides"
                yield self.finding(message, place=branches[0].place)
                return


def _shapes(policy: Policy) -> Iterator[tuple[Shapes, Shapes]]:
    """Shapes of the arguments and of the results, for the example and for each drawn input that the policy takes."""
    for args in (tuple(policy.example_args), *drawn(policy)):
        try:
            result = policy.working(*args, **policy.example_kwargs)
        except Exception:  # user code on the user's own further inputs; the reference run reports those that fail
            continue
        yield _of(args), tuple(tuple(t.shape) for t in policy.interface.flatten_result(result))


def _of(args: tuple[Any, ...]) -> Shapes:
    import torch
    from torch.utils import _pytree as pytree

    return tuple(tuple(t.shape) for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor))
