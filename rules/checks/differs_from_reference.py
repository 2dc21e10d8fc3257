"""The module does not do what `reference()` does.

## What it does

Runs the module and `reference()` on the example and on the user's inputs and compares them as every step of a rewrite
is compared: exactly for integers, within the rounding error of the module for floats. Where the module is the reference
but for normaliser statistics that are still at mean 0 and variance 1, the finding is a warning.

## Why it matters

What is exported is the module, and every later check is made against it. If the policy that was evaluated is more than
that (normalisation, scaling, squashing, clipping, done by a wrapper), a faithful export deploys another policy.

## Example

```python
def build():
    return actor

def reference():
    return Deployed(actor)  # normalises, then calls the actor
```

## Use instead

Hand over the whole pipeline:

```python
def build():
    return Deployed(actor)
```

## References

- Statistics left behind: https://github.com/DLR-RM/stable-baselines3/issues/2126
- Statistics never loaded: https://github.com/isaac-sim/IsaacLab/issues/2821
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Evidence, Finding, Severity
from graphaudit.rules.checks._reference import diagnose

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class DiffersFromReference(Check):
    code = "GA640"
    name = "differs-from-reference"
    severity = Severity.ERROR
    remedy = "Deploy the module that reference() returns, or add the missing steps to the one that build() returns."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """The difference between module and reference, with what would explain it."""
        diagnosis = diagnose(subject)
        if diagnosis is None:
            return
        evidence = Evidence(rule=diagnosis.difference, source="the module and reference(), run by graphaudit")
        if diagnosis.unloaded:
            yield self.finding(
                f"the module is reference() with statistics that were never loaded ({', '.join(diagnosis.unloaded)} "
                f"are at mean 0 and variance 1); {diagnosis.difference}",
                place=diagnosis.place,
                severity=Severity.WARNING,
                remedy="Load the statistics of training into the normaliser.",
                evidence=evidence,
            )
            return
        steps = [step.defect for step in diagnosis.missing if step.confirmed]
        seems = f"; what is missing: {', '.join(steps)}" if steps else ""
        yield self.finding(
            f"the module does not do what reference() does: {diagnosis.difference}{seems}",
            place=diagnosis.place,
            evidence=evidence,
        )
