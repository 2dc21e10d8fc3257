"""`torch.export` could not turn the policy into a graph, and no other finding explains why.

## What it does

Reports what stopped the capture, in `torch.export`'s own words, at the user's line. If a finding that names the
construct (a branch on a tensor, an `.item()`, NumPy) already explains it, that finding is left to speak, so that one
defect is not reported twice.

## Why it matters

Without a graph there is nothing to audit further, to rewrite or to deploy. The usual causes are Python that runs on
values instead of tensors, an object that is no tensor among the results, and operators without a shape function.

## Example

```python
def forward(self, obs):
    table = sorted(self.bank, key=lambda row: row.norm())  # Python orders tensors by value
    return self.net(obs + table[0])
```

## Use instead

```python
def forward(self, obs):
    bank = torch.stack(self.bank)
    return self.net(obs + bank[bank.norm(dim=-1).argmin()])
```

## References

- torch.export programming model: https://docs.pytorch.org/docs/stable/export/programming_model.html
- torch.export, data-dependent errors: https://docs.pytorch.org/docs/stable/export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Evidence, Finding, Severity
from graphaudit.rules.checks._events import EXPLAIN_FAILURE, events, explained, failed
from graphaudit.rules.checks._frozen import specialised_dimension
from graphaudit.rules.checks._refusals import EXPLAINED

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.capture import Blocker


class CaptureFailed(Check):
    code = "GA001"
    name = "capture-failed"
    severity = Severity.ERROR
    remedy = "Write this line with tensor operations whose result does not depend on values that Python reads."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The reasons of a failed capture, unless one of them is explained: then its finding is the one to follow.

        There is one reason for each way of capturing, and any of the ways is enough.
        """
        if subject.capture is None or not failed(subject):
            return
        blockers = subject.capture.blockers
        if any(_is_explained(subject, blocker) for blocker in blockers):
            return
        for blocker in blockers:
            evidence = Evidence(blocker.kind, "torch.export") if blocker.kind else None
            message, remedy = f"capture stops here: {blocker.reason}", blocker.remedy or None
            yield self.finding(message, place=blocker.place, evidence=evidence, remedy=remedy)
        if not blockers and not any(events(subject, *EXPLAIN_FAILURE)):
            yield self.finding("capture failed, and torch.export gave no reason")


def _is_explained(subject: Subject, blocker: Blocker) -> bool:
    """Whether another finding speaks of the same: at its line, or of a value or a size that the reason names."""
    if (
        blocker.kind in EXPLAINED
        or explained(subject, blocker.place, EXPLAIN_FAILURE)
        or specialised_dimension(subject, blocker)
    ):
        return True
    by_value = "data-dependent" in blocker.reason.lower() or "DataDependent" in blocker.kind
    return by_value and any(events(subject, *EXPLAIN_FAILURE))
