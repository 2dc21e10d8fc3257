"""`forward` prints, logs, writes files, or keeps something that it never reads.

## What it does

Finds calls of `print`, `open`, `input` and `logging` in the user's functions that `forward` runs, and attributes that
they write to and never read: lists of past actions, the last value of something.

## Why it matters

Python's side effects are no part of a graph: they happen once, while the policy is captured, and never on the target.
A log that monitors the policy in production goes silent, and what other code reads out of an attribute is never there.

## Example

```python
def forward(self, obs):
    action = self.net(obs)
    print("action", action)
    return action
```

## Use instead

Return what is worth logging, and log it where the policy is called:

```python
def forward(self, obs):
    return self.net(obs)
```

## References

- torch.export, side effects: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.graphs.places import is_library
from graphaudit.rules.checks._events import events, unless_captured
from graphaudit.rules.checks._source import functions
from graphaudit.rules.checks._state import is_read, matters

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class SideEffect(Check):
    code = "GA513"
    name = "side-effect"
    severity = Severity.NOTE
    remedy = "Do it where the policy is called."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Calls of functions that print, log or open files."""
        for function in functions(subject.policy):
            for call in function.calls() if not is_library(function.file) else ():
                name = _effect(function.resolve(call.func))
                if name:
                    place = function.place(call)
                    severity = unless_captured(subject, place)
                    yield self.finding(f"{name} runs at capture and never again", place=place, severity=severity)
        for event in events(subject, "write-attribute"):
            if not matters(subject, event) and not is_read(subject, event):
                message = f"attribute {event.detail} is written for others to read, and a model has no attributes"
                yield self.finding(message, place=event.place)


def _effect(target: Any) -> str:
    """The name of a function with a side effect; empty for every other."""
    if any(target is f for f in (print, open, input)):
        return f"{target.__name__}()"
    if (getattr(target, "__module__", None) or "").partition(".")[0] == "logging":
        return f"logging's {getattr(target, '__name__', 'call')}()"
    return ""
